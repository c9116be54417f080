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
    /// The smallest size counted in the tally, and how many sizes there are up to the largest: none
    /// without a tally, and of a new one.
    min_size: u32,
    sizes: u32,
}

impl CachedTally {
    pub(crate) const NONE: CachedTally =
        CachedTally { counts: core::ptr::null(), number: 0, min_size: 0, sizes: 0 };

    /// With the present range of sizes. The cache drops it when the segment in use changes.
    pub(crate) fn new(session: &Session, tally: TallyRef) -> CachedTally {
        let TallyRef { number, counts } = tally;
        let Some((min, max)) = tally.sizes(session) else {
            return CachedTally { counts, number, min_size: 0, sizes: 0 };
        };
        CachedTally { counts, number, min_size: min, sizes: max.saturating_sub(min).saturating_add(1) }
    }

    /// The tally.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<TallyRef> {
        // SAFETY: null, or a tally of the segment in use: entries are dropped when that changes.
        unsafe { self.counts.as_ref() }.map(|counts| TallyRef { number: self.number, counts })
    }

    /// The tally, if this size is within its range of sizes.
    #[inline(always)]
    pub(crate) fn of_size(&self, size: usize) -> Option<TallyRef> {
        (size.wrapping_sub(self.min_size as usize) < self.sizes as usize).then(|| {
            // SAFETY: with sizes there is a tally, of the segment in use: entries are dropped when
            // that changes. Read as a reference, so that it is not compared with null again.
            let counts = unsafe { *(&raw const self.counts).cast() };
            TallyRef { number: self.number, counts }
        })
    }

    /// Whether it is that tally.
    pub(crate) fn is(&self, tally: TallyRef) -> bool {
        self.number == tally.number
    }

    /// A block of this size was counted: the range of sizes includes it from now on.
    pub(crate) fn widen(&mut self, session: &Session, tally: TallyRef, size: u64) {
        if self.of_size(size as usize).is_none() {
            tally.note_size(session, size);
            *self = CachedTally::new(session, tally);
        }
    }
}
