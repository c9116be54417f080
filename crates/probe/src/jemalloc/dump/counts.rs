//! Blocks and bytes of a dump, and whose they are.

use heapwise_format::segment::{Bucket, Counter, SectionKind, Tally};

use crate::atomics::Ordering;
use crate::jemalloc::options::options;
use crate::{buckets, control, segment, thread};

/// Blocks and bytes, live and ever.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) live: (u64, u64),
    pub(super) ever: (u64, u64),
}

impl Counts {
    pub(super) const fn new() -> Self {
        Self { live: (0, 0), ever: (0, 0) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.0 == 0 && self.ever.0 == 0
    }

    pub(super) fn add(&mut self, other: &Counts) {
        for (sum, one) in [(&mut self.live, other.live), (&mut self.ever, other.ever)] {
            *sum = (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1));
        }
    }
}

/// Calls `with` for each bucket of this period, with the blocks it ever had and those that live.
pub(super) fn each_bucket(mut with: impl FnMut(&Bucket, u64, u64)) {
    let capacity = segment::section(SectionKind::Buckets).capacity;
    let used = segment::counter(Counter::Buckets).load(Ordering::Acquire);
    for number in 1..used.min(capacity) {
        let Some(bucket) = buckets::record(number as u32) else { continue };
        if bucket.period != control::period() {
            continue;
        }
        let (mut allocs, mut frees) = (0_u64, 0_u64);
        for slab in 0..u64::from(thread::slabs_used()) {
            if let Some(tally) = segment::read::<Tally>(SectionKind::Tallies, slab * capacity + number) {
                allocs = allocs.wrapping_add(tally.allocs);
                frees = frees.wrapping_add(tally.frees);
            }
        }
        // Read while threads count: a free may be seen before its allocation.
        let live = (allocs.wrapping_sub(frees) as i64).max(0) as u64;
        with(&bucket, allocs.max(live), live);
    }
}

/// The same as dumps have it: what was freed only where that is wanted.
pub(super) fn each_counted(mut with: impl FnMut(&Bucket, &Counts)) {
    let accumulates = options().accum;
    each_bucket(|bucket, ever, live| {
        let ever = if accumulates { ever } else { 0 };
        let bytes = |count: u64| count.saturating_mul(bucket.size);
        with(bucket, &Counts { live: (live, bytes(live)), ever: (ever, bytes(ever)) });
    });
}
