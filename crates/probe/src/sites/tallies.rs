//! Counts per bucket. Slab 0 is shared and added to atomically; every other slab has one thread at a
//! time, which loads and stores without a lock prefix.
#![allow(unsafe_code)]

use core::mem::offset_of;

use heapwise_format::segment::{Counter, SectionKind, Tally};

use crate::atomics::{AtomicU64, Ordering};
use crate::thread::SHARED_SLAB;
use crate::{arch, segment};

/// One [`Tally`] in the segment.
#[repr(C)]
pub(crate) struct Counts {
    allocs: AtomicU64,
    frees: AtomicU64,
    peak: AtomicU64,
    grown_bytes: AtomicU64,
}

const _: () = assert!(size_of::<Counts>() == size_of::<Tally>());
const _: () = assert!(offset_of!(Counts, frees) == offset_of!(Tally, frees));
const _: () = assert!(offset_of!(Counts, peak) == offset_of!(Tally, peak));
const _: () = assert!(offset_of!(Counts, grown_bytes) == offset_of!(Tally, grown_bytes));

/// The tallies of one thread, or the shared ones. Zeroed memory is valid: no tallies.
#[derive(Clone, Copy)]
pub(crate) struct Slab {
    number: u32,
    /// Of bucket 0's tally in the segment.
    offset: u64,
    /// Buckets it has tallies for.
    buckets: u64,
}

impl Slab {
    /// Slab `number` of the segment in use; without tallies when there is no such slab.
    pub(crate) fn numbered(number: u32) -> Slab {
        let buckets = segment::section(SectionKind::Buckets).capacity;
        let offset = segment::section(SectionKind::Tallies).record_offset(u64::from(number) * buckets);
        Slab { number, offset: offset.unwrap_or(0), buckets: if offset.is_some() { buckets } else { 0 } }
    }

    fn shared() -> Slab {
        Slab::numbered(SHARED_SLAB)
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// A bucket's tally; `None` (counted) when there is no memory for it.
    #[inline(always)]
    pub(crate) fn counts(&self, bucket: u32) -> Option<&'static Counts> {
        if u64::from(bucket) >= self.buckets {
            return lost();
        }
        let offset = self.offset + u64::from(bucket) * size_of::<Tally>() as u64;
        // SAFETY: a slab has a tally per bucket.
        let place = unsafe { segment::record_at::<Tally>(offset) };
        // SAFETY: the words of a tally are atomic for everybody and stay mapped.
        place.map(|place| unsafe { &*place.cast() }).or_else(lost)
    }

    /// The same for one whose tally was found before.
    ///
    /// # Safety
    /// [`Slab::counts`] found it, in this segment.
    #[inline(always)]
    pub(crate) unsafe fn real_counts(&self, bucket: u32) -> &'static Counts {
        // SAFETY: the caller's promise.
        unsafe { &*self.place_of(bucket) }
    }

    /// A bucket's tally will be written to in a moment, if there is one.
    #[inline(always)]
    pub(crate) fn expect_counts(&self, bucket: u32) {
        arch::expect_write(self.place_of(bucket));
    }

    #[inline(always)]
    fn place_of(&self, bucket: u32) -> *const Counts {
        let offset = self.offset.wrapping_add(u64::from(bucket) * size_of::<Tally>() as u64);
        segment::base().wrapping_add(offset as usize).cast()
    }

    /// Counts an allocation that added `grown` bytes to an older block.
    #[inline(always)]
    pub(crate) fn add_alloc(&self, counts: &Counts, grown: u64) {
        if self.number != SHARED_SLAB {
            return counts.add_own_alloc(grown);
        }
        let allocs = counts.allocs.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        counts.note_live(allocs);
        counts.grown_bytes.fetch_add(grown, Ordering::Relaxed);
    }

    /// Undoes [`Slab::add_alloc`]: there was no room to remember the block.
    #[cold]
    pub(crate) fn undo_alloc(&self, counts: &Counts) {
        counts.allocs.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a free; where.
    #[inline(always)]
    pub(crate) fn add_free(&self, bucket: u32) -> Option<&'static Counts> {
        let counts = self.counts(bucket)?;
        if self.number == SHARED_SLAB {
            counts.frees.fetch_add(1, Ordering::Relaxed);
        } else {
            counts.add_own_free();
        }
        Some(counts)
    }
}

impl Counts {
    /// As [`Slab::add_alloc`], in a slab of the calling thread's own.
    #[inline(always)]
    pub(crate) fn add_own_alloc(&self, grown: u64) {
        let allocs = self.allocs.load(Ordering::Relaxed).wrapping_add(1);
        self.allocs.store(allocs, Ordering::Relaxed);
        self.note_live(allocs);
        if grown != 0 {
            let grown = self.grown_bytes.load(Ordering::Relaxed).wrapping_add(grown);
            self.grown_bytes.store(grown, Ordering::Relaxed);
        }
    }

    /// Live blocks may be more than ever. More frees than allocations in this slab: others allocated what this thread
    /// freed.
    #[inline(always)]
    fn note_live(&self, allocs: u64) {
        let live = allocs.wrapping_sub(self.frees.load(Ordering::Relaxed));
        if (live as i64) > self.peak.load(Ordering::Relaxed) as i64 {
            self.peak.store(live, Ordering::Relaxed);
        }
    }

    /// As [`Slab::add_free`], likewise.
    #[inline(always)]
    pub(crate) fn add_own_free(&self) {
        self.frees.store(self.frees.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

#[cold]
fn lost() -> Option<&'static Counts> {
    segment::count(Counter::LostBuckets);
    None
}

/// Counts an allocation on behalf of whoever; `None` when there is no memory for the tally.
pub(crate) fn add_alloc_shared(bucket: u32, grown: u64) -> Option<(Slab, &'static Counts)> {
    let slab = Slab::shared();
    let counts = slab.counts(bucket)?;
    slab.add_alloc(counts, grown);
    Some((slab, counts))
}

/// Counts a free on behalf of whoever.
pub(crate) fn add_free_shared(bucket: u32) {
    Slab::shared().add_free(bucket);
}

/// The tallies of a bucket in all slabs, as far as they were ever written.
fn everywhere(bucket: u32) -> impl Iterator<Item = &'static Counts> {
    let buckets = segment::section(SectionKind::Buckets).capacity;
    (0..segment::slabs()).filter_map(move |slab| {
        let place = segment::existing_of::<Tally>(SectionKind::Tallies, slab * buckets + u64::from(bucket))?;
        // SAFETY: as in `Slab::counts`.
        Some(unsafe { &*place.cast() })
    })
}

/// Whether as many blocks of the bucket were freed as allocated.
pub(crate) fn is_settled(bucket: u32) -> bool {
    let live = everywhere(bucket).fold(0_u64, |live, counts| {
        live.wrapping_add(counts.allocs.load(Ordering::Relaxed))
            .wrapping_sub(counts.frees.load(Ordering::Relaxed))
    });
    live == 0
}

/// Forgets what was counted for a bucket that nobody uses.
pub(crate) fn clear(bucket: u32) {
    for counts in everywhere(bucket) {
        for word in [&counts.allocs, &counts.frees, &counts.peak, &counts.grown_bytes] {
            word.store(0, Ordering::Relaxed);
        }
    }
}
