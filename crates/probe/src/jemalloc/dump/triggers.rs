//! When a dump is due by itself: every so many allocated bytes, and at each new high.

use heapwise_format::segment::Counter;

use super::{Kind, automatic};
use crate::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::jemalloc::options::options;
use crate::segment;

/// Something below may be due.
static ARMED: AtomicBool = AtomicBool::new(false);
/// Dumps at highs are wanted.
static AT_HIGHS: AtomicBool = AtomicBool::new(false);
/// Allocated bytes at which the next interval dump is due.
static NEXT_INTERVAL: AtomicU64 = AtomicU64::new(u64::MAX);
/// Live bytes that are the next high.
static NEXT_HIGH: AtomicU64 = AtomicU64::new(0);
/// Default for the smallest step between highs.
const LEAST_STEP: u64 = 1 << 20;

/// Counts from nothing (again after `fork`).
pub(super) fn begin() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    let options = options();
    if !STARTED.swap(true, Ordering::Relaxed) {
        AT_HIGHS.store(options.prof && options.gdump, Ordering::Relaxed);
    }
    let interval = interval();
    NEXT_INTERVAL.store(if interval == 0 { u64::MAX } else { interval }, Ordering::Relaxed);
    NEXT_HIGH.store(step_from(0), Ordering::Relaxed);
    arm();
}

fn arm() {
    ARMED.store(is_at_highs() || interval() != 0, Ordering::Relaxed);
}

/// Bytes between interval dumps; 0: none.
pub(crate) fn interval() -> u64 {
    let options = options();
    if options.prof { u32::try_from(options.lg_interval).map_or(0, |lg| 1 << lg) } else { 0 }
}

/// Whether each new high is dumped.
pub(crate) fn is_at_highs() -> bool {
    AT_HIGHS.load(Ordering::Relaxed)
}

/// Switches dumps at highs.
pub(crate) fn set_at_highs(wanted: bool) {
    AT_HIGHS.store(wanted, Ordering::Relaxed);
    arm();
}

/// Whether some dump may be due by itself.
#[inline(always)]
pub(crate) fn is_armed() -> bool {
    ARMED.load(Ordering::Relaxed)
}

/// Called where the shared sums have grown: one load when nothing is armed.
#[inline(always)]
pub(crate) fn notice() {
    if is_armed() {
        look();
    }
}

#[cold]
fn look() {
    let sum = |counter| segment::counter(counter).load(Ordering::Relaxed);
    let allocated = sum(Counter::AllocatedBytes);
    let due = NEXT_INTERVAL.load(Ordering::Relaxed);
    if allocated >= due {
        let next = (allocated / interval().max(1) + 1).saturating_mul(interval());
        if NEXT_INTERVAL.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            automatic(Kind::Interval);
        }
    }
    let live = (sum(Counter::LiveBytes) as i64).max(0) as u64;
    let high = NEXT_HIGH.load(Ordering::Relaxed);
    if live >= high && is_at_highs() {
        let next = live.saturating_add(step_from(live));
        if NEXT_HIGH.compare_exchange(high, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            automatic(Kind::High);
        }
    }
}

/// Smallest increase over `high` that triggers a dump.
fn step_from(high: u64) -> u64 {
    match options().gdump_step {
        0 => (high / 8).max(LEAST_STEP),
        step => step,
    }
}
