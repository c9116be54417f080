//! Buckets of earlier periods, used again when the table is full: a server that is profiled every day and reset
//! in between must not run out of them.

use heapwise_format::segment::{Bucket, SectionKind};

use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::{control, segment, tallies};

/// Most buckets looked at for one: the program waits meanwhile.
const LOOK_AT: u64 = 4096;

/// Held by the thread that looks; others go without.
static LOOKING: AtomicBool = AtomicBool::new(false);
/// Where the last look ended.
static CURSOR: AtomicU64 = AtomicU64::new(1);
/// Buckets looked at in vain since the last find.
static IN_VAIN: AtomicU64 = AtomicU64::new(0);
/// The period in which everything was looked at in vain; not tried again before the next.
static GIVEN_UP: AtomicU32 = AtomicU32::new(0);

/// A bucket whose blocks are all freed and counted for an earlier period, emptied.
pub(super) fn take() -> Option<u32> {
    if GIVEN_UP.load(Ordering::Relaxed) == control::period() || LOOKING.swap(true, Ordering::Acquire) {
        return None;
    }
    let found = look();
    LOOKING.store(false, Ordering::Release);
    found
}

fn look() -> Option<u32> {
    let capacity = segment::section(SectionKind::Buckets).capacity;
    for _ in 0..LOOK_AT {
        let bucket = CURSOR.fetch_add(1, Ordering::Relaxed);
        if bucket >= capacity {
            CURSOR.store(1, Ordering::Relaxed);
            continue;
        }
        let bucket = bucket as u32;
        let record = super::record(bucket)?;
        // Period 0: another thread is just making it. What was written down is counted elsewhere.
        let over = ![0, Bucket::LOGGED, control::period()].contains(&record.period);
        if over && tallies::is_settled(bucket) {
            IN_VAIN.store(0, Ordering::Relaxed);
            super::retire(bucket, &record);
            tallies::clear(bucket);
            return Some(bucket);
        }
        if IN_VAIN.fetch_add(1, Ordering::Relaxed) > capacity {
            IN_VAIN.store(0, Ordering::Relaxed);
            GIVEN_UP.store(control::period(), Ordering::Relaxed);
            return None;
        }
    }
    None
}
