//! Counts per bucket. Slab 0 is shared and added to atomically; every other slab has one thread at a
//! time, which loads and stores without a lock prefix.
#![allow(unsafe_code)]

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

use heapwise_format::segment::{Counter, SectionKind, Tally};

use crate::segment;
use crate::thread::SHARED_SLAB;

/// The words of one tally.
#[derive(Clone, Copy)]
struct Words {
    allocs: &'static AtomicU64,
    frees: &'static AtomicU64,
    peak: &'static AtomicU64,
    grown_bytes: &'static AtomicU64,
}

impl Words {
    #[inline(always)]
    fn at(place: *mut u8) -> Self {
        // SAFETY: `place` is a tally that is real; these are its fields.
        unsafe {
            Self {
                allocs: segment::word64(place, offset_of!(Tally, allocs)),
                frees: segment::word64(place, offset_of!(Tally, frees)),
                peak: segment::word64(place, offset_of!(Tally, peak)),
                grown_bytes: segment::word64(place, offset_of!(Tally, grown_bytes)),
            }
        }
    }
}

#[inline(always)]
fn words(slab: u32, bucket: u32) -> Option<Words> {
    let buckets = segment::section(SectionKind::Buckets).capacity;
    if u64::from(bucket) >= buckets {
        return None;
    }
    let place = segment::record(SectionKind::Tallies, u64::from(slab) * buckets + u64::from(bucket))?;
    Some(Words::at(place))
}

/// Adds to a word that only this thread writes, or that all do.
#[inline(always)]
fn add(word: &AtomicU64, amount: u64, shared: bool) -> u64 {
    if shared {
        word.fetch_add(amount, Ordering::Relaxed).wrapping_add(amount)
    } else {
        let sum = word.load(Ordering::Relaxed).wrapping_add(amount);
        word.store(sum, Ordering::Relaxed);
        sum
    }
}

/// Counts an allocation; false (counted) when there is no memory for the tally.
#[inline(always)]
pub(crate) fn add_alloc(slab: u32, bucket: u32, grown: u64) -> bool {
    let Some(words) = words(slab, bucket) else {
        segment::count(Counter::LostBuckets);
        return false;
    };
    let shared = slab == SHARED_SLAB;
    let live = add(words.allocs, 1, shared).wrapping_sub(words.frees.load(Ordering::Relaxed));
    // More frees than allocations in this slab: others allocated what this thread freed.
    if (live as i64) > words.peak.load(Ordering::Relaxed) as i64 {
        words.peak.store(live, Ordering::Relaxed);
    }
    if grown != 0 {
        add(words.grown_bytes, grown, shared);
    }
    true
}

/// The tallies of a bucket in all slabs, as far as they were ever written.
fn everywhere(bucket: u32) -> impl Iterator<Item = Words> {
    let buckets = segment::section(SectionKind::Buckets).capacity;
    (0..segment::slabs()).filter_map(move |slab| {
        let place = segment::existing(SectionKind::Tallies, slab * buckets + u64::from(bucket))?;
        Some(Words::at(place))
    })
}

/// Whether as many blocks of the bucket were freed as allocated.
pub(crate) fn is_settled(bucket: u32) -> bool {
    let live = everywhere(bucket).fold(0_u64, |live, words| {
        live.wrapping_add(words.allocs.load(Ordering::Relaxed))
            .wrapping_sub(words.frees.load(Ordering::Relaxed))
    });
    live == 0
}

/// Forgets what was counted for a bucket that nobody uses.
pub(crate) fn clear(bucket: u32) {
    for words in everywhere(bucket) {
        for word in [words.allocs, words.frees, words.peak, words.grown_bytes] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// Undoes [`add_alloc`]: there was no room to remember the block.
pub(crate) fn undo_alloc(slab: u32, bucket: u32) {
    if let Some(words) = words(slab, bucket) {
        add(words.allocs, u64::MAX, slab == SHARED_SLAB);
    }
}

/// Counts a free.
#[inline(always)]
pub(crate) fn add_free(slab: u32, bucket: u32) {
    match words(slab, bucket) {
        Some(words) => {
            add(words.frees, 1, slab == SHARED_SLAB);
        }
        None => segment::count(Counter::LostBuckets),
    }
}

/// Counts a free on behalf of whoever.
pub(crate) fn add_free_shared(bucket: u32) {
    add_free(SHARED_SLAB, bucket);
}
