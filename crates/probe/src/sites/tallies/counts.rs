//! What a tally counts: its record in the segment.

use core::mem::offset_of;

use heapwise_format::segment::Tally;

use crate::atomics::{AtomicU64, Ordering};
use crate::record::peak::{self, Peak};

/// One [`Tally`] in the segment.
#[repr(C)]
pub(crate) struct Counts {
    /// [`SiteKey`] of the tally.
    pub(super) site: AtomicU64,
    /// [`Peak::now`] when it changed last.
    pub(super) now: AtomicU64,
    pub(super) allocs: AtomicU64,
    pub(super) alloc_bytes: AtomicU64,
    pub(super) frees: AtomicU64,
    pub(super) freed_bytes: AtomicU64,
    pub(super) alloc_slack: AtomicU64,
    pub(super) freed_slack: AtomicU64,
}

const _: () = assert!(size_of::<Counts>() == size_of::<Tally>());
const _: () = assert!(offset_of!(Counts, now) == offset_of!(Tally, peak_epoch));
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

    pub(super) fn period(&self) -> u32 {
        peak::period_of(self.now.load(Ordering::Relaxed))
    }

    /// Whether it belongs to the period in force.
    pub(crate) fn is_of_period(&self, peak: &Peak) -> bool {
        self.period() == peak.period()
    }

    /// Whether it has changed since the last snapshot at a peak, and belongs to the period in
    /// force.
    #[inline(always)]
    pub(crate) fn is_current(&self, now: u64) -> bool {
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
