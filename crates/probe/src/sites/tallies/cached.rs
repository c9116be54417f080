//! The tally of a site, as a thread's caches of stacks keep it.
#![allow(unsafe_code)]

use super::{Counts, TallyRef};
use crate::session::Session;

/// A tally of the calling thread and its range of sizes. Zeroed memory is valid: none.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CachedTally {
    /// Null: none.
    counts: *const Counts,
    number: u32,
    /// Smallest size counted in the tally, and the difference to the largest.
    min_size: u32,
    size_span: u32,
}

impl CachedTally {
    pub(crate) const NONE: CachedTally =
        CachedTally { counts: core::ptr::null(), number: 0, min_size: 0, size_span: 0 };

    /// With the present range of sizes. The cache drops it when the segment in use changes.
    pub(crate) fn new(session: &Session, tally: TallyRef) -> CachedTally {
        let (min, max) = tally.sizes(session);
        let TallyRef { number, counts } = tally;
        CachedTally { counts, number, min_size: min, size_span: max.saturating_sub(min) }
    }

    /// The tally.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<TallyRef> {
        // SAFETY: null, or a tally of the segment in use: entries are dropped when that changes.
        unsafe { self.counts.as_ref() }.map(|counts| TallyRef { number: self.number, counts })
    }

    /// The tally, if this size is within its range of sizes.
    #[inline(always)]
    pub(crate) fn of_size(&self, size: u64) -> Option<TallyRef> {
        (size.wrapping_sub(self.min_size.into()) <= self.size_span.into()).then(|| self.get())?
    }

    /// Whether it is that tally.
    pub(crate) fn is(&self, tally: TallyRef) -> bool {
        self.number == tally.number
    }

    /// A block of this size was counted: the range of sizes includes it from now on.
    pub(crate) fn widen(&mut self, session: &Session, tally: TallyRef, size: u64) {
        if self.of_size(size).is_none() {
            tally.note_size(session, size);
            *self = CachedTally::new(session, tally);
        }
    }
}
