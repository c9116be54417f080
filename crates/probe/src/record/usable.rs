//! Slack: bytes that the allocator gave to a block beyond those requested.
//!
//! Allocators round sizes up to classes, so slack is a function of the size. For glibc it is
//! computed. For other allocators `malloc_usable_size` is called once per 8 bytes of sizes, and a
//! table caches the result. Above [`LIMIT`] it is called for every block. Where blocks of several
//! allocators are recorded, slack is not known and counts as 0.

use core::ffi::c_void;

use heapwise_format::segment::AllocatorKind;

use crate::atomics::{AtomicBool, AtomicU32, Ordering};
use crate::hooks;
use crate::runtimes::python::arenas;

/// Sizes from here on are not in the table.
pub(crate) const LIMIT: u64 = 32 * 1024;
const GRANULE: u64 = 8;

/// What is known of slack. Zeroed memory is valid: nothing.
pub(crate) struct Slack {
    /// The allocator is glibc's.
    is_glibc: AtomicBool,
    /// Slack of a block of the largest size in each granule, plus 1; 0: not known yet.
    by_granule: [AtomicU32; (LIMIT / GRANULE) as usize + 1],
}

impl Slack {
    /// Sets which allocator is underneath.
    pub(crate) fn begin(&self, allocator: AllocatorKind) {
        self.is_glibc.store(allocator == AllocatorKind::Glibc, Ordering::Relaxed);
    }

    /// Slack of a block of `size` bytes, if that is known without asking.
    #[inline(always)]
    pub(crate) fn known(&self, size: u64) -> Option<u64> {
        let granule = size.div_ceil(GRANULE);
        let slack = u64::from(self.by_granule.get(granule as usize)?.load(Ordering::Relaxed));
        (slack != 0).then(|| slack - 1 + granule * GRANULE - size)
    }

    /// Slack that a block of `size` bytes would have, if that is known without one.
    pub(crate) fn before_allocation(&self, size: u64) -> Option<u64> {
        let is_computed = self.is_glibc.load(Ordering::Relaxed) && size < LIMIT;
        self.known(size).or_else(|| is_computed.then(|| glibc_usable(size) - size))
    }

    /// Slack of a live block.
    pub(crate) fn of(&self, address: u64, size: u64) -> u64 {
        self.known(size).unwrap_or_else(|| self.learn(address, size))
    }

    #[cold]
    fn learn(&self, address: u64, size: u64) -> u64 {
        let usable = |size| {
            if hooks::entry_points::has_foreign_blocks() {
                size
            } else if self.is_glibc.load(Ordering::Relaxed) && size < LIMIT {
                glibc_usable(size)
            } else if arenas::hold(address) {
                // Arenas have blocks of multiples of 16 bytes.
                size.next_multiple_of(16)
            } else {
                hooks::usable_size(address as *mut c_void) as u64
            }
        };
        let granule = size.div_ceil(GRANULE);
        if let Some(entry) = self.by_granule.get(granule as usize) {
            let beyond = usable(granule * GRANULE).saturating_sub(granule * GRANULE);
            entry.store(beyond as u32 + 1, Ordering::Relaxed);
            return self.known(size).unwrap_or(0);
        }
        usable(size).saturating_sub(size)
    }
}

/// glibc keeps 8 bytes beside a block, rounds to 16, and has no chunk below 32 bytes.
fn glibc_usable(size: u64) -> u64 {
    ((size + 8).next_multiple_of(16)).max(32) - 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_rounds_like_its_source() {
        for (size, usable) in
            [(0, 24), (1, 24), (24, 24), (25, 40), (40, 40), (41, 56), (1000, 1000), (1001, 1016)]
        {
            assert_eq!(glibc_usable(size), usable, "{size}");
        }
    }
}
