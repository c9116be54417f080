//! What a tally counts: its record in the segment.

use core::mem::offset_of;

use heapwise_format::segment::Tally;

use crate::atomics::{AtomicU32, AtomicU64, Ordering};
use crate::record::peak::Peak;

/// One [`Tally`] in the segment.
#[repr(C)]
pub(crate) struct Counts {
    /// [`SiteKey`] of the tally.
    pub(super) site: AtomicU64,
    /// [`Peak::now`] when it changed last.
    pub(super) now: AtomicU32,
    /// Its [`SizeLimits`].
    sizes: AtomicU32,
    pub(super) allocs: AtomicU64,
    pub(super) alloc_bytes: AtomicU64,
    pub(super) frees: AtomicU64,
    pub(super) freed_bytes: AtomicU64,
    pub(super) alloc_slack: AtomicU64,
    pub(super) freed_slack: AtomicU64,
}

const _: () = assert!(size_of::<Counts>() == size_of::<Tally>());
const _: () = assert!(offset_of!(Counts, now) == offset_of!(Tally, epoch));
const _: () = assert!(offset_of!(Counts, sizes) == offset_of!(Tally, min_size));
const _: () = assert!(offset_of!(Counts, allocs) == offset_of!(Tally, allocs));
const _: () = assert!(offset_of!(Counts, freed_slack) == offset_of!(Tally, freed_slack));

/// Key of a tally: stack, sampling distance and allocating thread, as in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SiteKey(pub(super) u64);

impl SiteKey {
    #[inline(always)]
    pub(crate) fn new(node: u32, rate: u16, thread: u16) -> SiteKey {
        SiteKey(u64::from(node) | u64::from(rate) << 32 | u64::from(thread) << 48)
    }

    pub(crate) fn node(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn rate(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Sampling distance and thread.
    #[inline(always)]
    pub(crate) fn owner(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    pub(crate) fn thread(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

/// Smallest and largest size of a tally: [`Tally::min_size`], and [`Tally::max_size`] in the upper
/// half. 0: none.
#[derive(Clone, Copy)]
pub(super) struct SizeLimits(u32);

impl SizeLimits {
    const LARGE: u32 = Tally::LARGE as u32;

    /// The half of a size.
    #[inline(always)]
    fn half(size: u64) -> u32 {
        size.saturating_add(1).min(Tally::LARGE.into()) as u32
    }

    /// Whether sizes are this large that the halves do not have them.
    #[inline(always)]
    pub(super) fn is_large(size: u64) -> bool {
        Self::half(size) == Self::LARGE
    }

    /// Whether a size is known to be between the two. Never of one that is large.
    #[inline(always)]
    pub(super) fn contain(self, size: u64) -> bool {
        let (min, max, half) = (self.0 & 0xffff, self.0 >> 16, Self::half(size));
        min <= half && half <= max && half != Self::LARGE && min != 0
    }

    fn with(self, size: u64) -> Self {
        let (min, max, half) = (self.0 & 0xffff, self.0 >> 16, Self::half(size));
        let min = if min == 0 { half } else { min.min(half) };
        Self(min | max.max(half) << 16)
    }

    /// The smallest size and the largest one, where they are not large.
    pub(super) fn small(self) -> (Option<u32>, Option<u32>) {
        let size = |half: u32| half.checked_sub(1).filter(|_| half != Self::LARGE);
        (size(self.0 & 0xffff), size(self.0 >> 16))
    }

    pub(super) fn are_empty(self) -> bool {
        self.0 == 0
    }
}

/// A block as it is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    /// Requested bytes.
    pub(crate) size: u64,
    /// Usable minus requested bytes.
    pub(crate) slack: u64,
}

/// The writers of a tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The calling thread alone.
    Own,
    /// Any thread.
    Shared,
}

impl Counts {
    #[inline(always)]
    pub(crate) fn site(&self) -> SiteKey {
        SiteKey(self.site.load(Ordering::Relaxed))
    }

    /// Whether it has counted no allocation yet.
    pub(crate) fn is_new(&self) -> bool {
        self.allocs.load(Ordering::Relaxed) == 0
    }

    /// Whether it belongs to the period in force.
    #[inline(always)]
    pub(crate) fn is_of_period(&self, peak: &Peak) -> bool {
        peak.is_of_period(self.now.load(Ordering::Relaxed))
    }

    /// The sizes it has counted.
    #[inline(always)]
    pub(super) fn size_limits(&self) -> SizeLimits {
        SizeLimits(self.sizes.load(Ordering::Relaxed))
    }

    /// Extends the sizes it has counted.
    pub(super) fn widen_size_limits(&self, size: u64) {
        let wider = |limits| Some(SizeLimits(limits).with(size).0);
        let _ = self.sizes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, wider);
    }

    /// Whether it has changed since the last snapshot at a peak, and belongs to the period in
    /// force.
    #[inline(always)]
    pub(crate) fn is_current(&self, now: u32) -> bool {
        self.now.load(Ordering::Relaxed) == now
    }

    /// Counts an allocation, as its only writer.
    #[inline(always)]
    pub(crate) fn add_own_alloc(&self, amount: Amount) {
        add(&self.allocs, 1);
        add(&self.alloc_bytes, amount.size);
        add(&self.alloc_slack, amount.slack);
    }

    /// Counts a free, as its only writer.
    #[inline(always)]
    pub(crate) fn add_own_free(&self, amount: Amount) {
        add(&self.frees, 1);
        add(&self.freed_bytes, amount.size);
        add(&self.freed_slack, amount.slack);
    }
}

/// Adds to a word that the calling thread alone writes.
#[inline(always)]
pub(crate) fn add(word: &AtomicU64, amount: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

#[inline(always)]
pub(super) fn add_by(writer: Writer, word: &AtomicU64, amount: u64) {
    match writer {
        Writer::Own => add(word, amount),
        Writer::Shared => drop(word.fetch_add(amount, Ordering::Relaxed)),
    }
}
