//! When a dump is due by itself: every so many allocated bytes, and at each new high.

use heapwise_format::segment::Counter;

use super::{Dump, Kind, automatic};
use crate::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::jemalloc::options::options;
use crate::session::Session;

/// Default for the smallest step between highs.
const LEAST_STEP: u64 = 1 << 20;

/// When dumps are due. Zeroed memory is valid: never.
pub(super) struct Triggers {
    /// Something below may be due.
    is_armed: AtomicBool,
    /// Dumps at highs are wanted.
    at_highs: AtomicBool,
    /// Allocated bytes at which the next interval dump is due.
    next_interval: AtomicU64,
    /// Live bytes that are the next high.
    next_high: AtomicU64,
}

/// Bytes between interval dumps; 0: none.
pub(crate) fn interval() -> u64 {
    let options = options();
    if options.prof { u32::try_from(options.lg_interval).map_or(0, |lg| 1 << lg) } else { 0 }
}

impl Dump {
    /// Starts from nothing; `at_highs`: dumps at highs are wanted.
    pub(super) fn start_triggers(&self, at_highs: bool) {
        let triggers = &self.triggers;
        let interval = interval();
        triggers.next_interval.store(if interval == 0 { u64::MAX } else { interval }, Ordering::Relaxed);
        triggers.next_high.store(step_from(0), Ordering::Relaxed);
        self.set_at_highs(at_highs);
    }

    /// Whether each new high is dumped.
    pub(crate) fn is_at_highs(&self) -> bool {
        self.triggers.at_highs.load(Ordering::Relaxed)
    }

    /// Switches dumps at highs.
    pub(crate) fn set_at_highs(&self, wanted: bool) {
        self.triggers.at_highs.store(wanted, Ordering::Relaxed);
        self.triggers.is_armed.store(wanted || interval() != 0, Ordering::Relaxed);
    }

    /// Whether some dump may be due by itself.
    #[inline(always)]
    pub(crate) fn is_armed(&self) -> bool {
        self.triggers.is_armed.load(Ordering::Relaxed)
    }
}

/// Called where the shared sums have grown: one load when nothing is armed.
#[inline(always)]
pub(crate) fn notice(session: &Session) {
    if session.dump.is_armed() {
        look(session);
    }
}

#[cold]
fn look(session: &Session) {
    let sum = |counter| session.segment.counter(counter).load(Ordering::Relaxed);
    let Triggers { next_interval, next_high, .. } = &session.dump.triggers;
    let allocated = sum(Counter::AllocatedBytes);
    let due = next_interval.load(Ordering::Relaxed);
    if allocated >= due {
        let next = (allocated / interval().max(1) + 1).saturating_mul(interval());
        if next_interval.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            automatic(session, Kind::Interval);
        }
    }
    let live = (sum(Counter::LiveBytes) as i64).max(0) as u64;
    let high = next_high.load(Ordering::Relaxed);
    if live >= high && session.dump.is_at_highs() {
        let next = live.saturating_add(step_from(live));
        if next_high.compare_exchange(high, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            automatic(session, Kind::High);
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
