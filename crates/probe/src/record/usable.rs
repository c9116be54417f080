//! Slack: bytes that the allocator gave to a block beyond those requested.
//!
//! Allocators round sizes up to classes, so slack is mostly a function of the size: blocks whose
//! slack is that function are *regular*. For glibc it is computed. For other allocators the usable
//! size of one block of each size, or per 8 bytes of sizes, is measured, and a table caches the
//! result. Above [`LIMIT`] it is measured for every block.
//!
//! Two kinds of blocks may not be regular: those with a large alignment, and those that `realloc`
//! left in place although a smaller class would hold them (tcmalloc, mimalloc). They are measured
//! when they are allocated and when they are freed. The live-block index keeps a block that is not
//! regular in its hash, so the fast path, which knows the table only, does not find it.
//!
//! Each allocator has a table of its own ([`Family`]).
#![allow(unsafe_code)]

use core::ffi::c_void;

use heapwise_format::entry_hooks::{LINKED_FAMILY, MOST_FAMILIES};
use heapwise_format::segment::AllocatorKind;

use crate::atomics::{AtomicBool, AtomicU32, Ordering};
use crate::hooks::{self, families};
use crate::live::Removed;
use crate::record::sizes::ClassOffset;
use crate::runtimes::python::arenas;

/// Sizes from here on are not in the table.
pub(crate) const LIMIT: u64 = 32 * 1024;
const GRANULE: u64 = 8;
/// Blocks in the arenas of a runtime have multiples of so many bytes.
const OF_ARENAS: u64 = 16;

/// The number of an allocator, below [`MOST_FAMILIES`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Family(usize);

impl Family {
    /// The allocator that the dynamic linker leads to.
    pub(crate) const LINKED: Family = Family(LINKED_FAMILY);

    /// The family of a number that a controller wrote.
    #[inline(always)]
    pub(crate) fn new(number: u64) -> Family {
        Family(number as usize % MOST_FAMILIES)
    }

    pub(crate) fn number(self) -> usize {
        self.0
    }
}

/// Where a block comes from, as far as its slack depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) family: Family,
    /// It may not be regular.
    pub(crate) is_measured: bool,
}

impl Source {
    /// A block of a plain function of the allocator that the dynamic linker leads to.
    pub(crate) const LINKED: Source = Source { family: Family::LINKED, is_measured: false };
}

/// Slack of a new block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NewSlack {
    pub(crate) bytes: u64,
    pub(crate) is_regular: bool,
}

/// What the fast path needs to know of a regular block's size.
#[derive(Clone, Copy)]
pub(crate) struct Regular {
    pub(crate) slack: u64,
    pub(crate) class: ClassOffset,
}

/// What is known of slack. Zeroed memory is valid: nothing.
pub(crate) struct Slack {
    /// The allocator that the dynamic linker leads to is glibc's.
    is_glibc: AtomicBool,
    linked: ByGranule,
    others: [BySize; MOST_FAMILIES - 1],
}

/// Slack by 8 bytes of sizes, for an allocator whose classes are multiples of 8. An entry is the
/// usable size in the lower [`USABLE_BITS`], and above them the class of the histogram, which holds
/// all of the 8 sizes too; 0: not known yet.
struct ByGranule([AtomicU32; (LIMIT / GRANULE) as usize + 1]);

const USABLE_BITS: u32 = 18;

impl ByGranule {
    #[inline(always)]
    fn regular(&self, size: u64) -> Option<Regular> {
        let granule = size.wrapping_add(GRANULE - 1) / GRANULE;
        let entry = self.0.get(granule as usize)?.load(Ordering::Relaxed);
        let slack = u64::from(entry & ((1 << USABLE_BITS) - 1)).wrapping_sub(size);
        (entry != 0).then_some(Regular { slack, class: ClassOffset::new(entry >> USABLE_BITS) })
    }

    fn known(&self, size: u64) -> Option<u64> {
        if size > LIMIT { None } else { self.regular(size).map(|regular| regular.slack) }
    }

    /// Notes the usable size of a block; larger ones than an entry has room for stay unknown.
    fn learn(&self, size: u64, usable: u64) {
        let largest = size.div_ceil(GRANULE).saturating_mul(GRANULE);
        let usable = usable.max(largest);
        let entry = self.0.get((largest / GRANULE) as usize).filter(|_| usable >> USABLE_BITS == 0);
        if let Some(entry) = entry {
            let class = ClassOffset::of(largest).bytes();
            entry.store(usable as u32 | class << USABLE_BITS, Ordering::Relaxed);
        }
    }
}

/// Slack by size, plus 1; 0: not known yet. Classes may be any: built with its debug checks,
/// mimalloc has no slack at all.
struct BySize([AtomicU32; LIMIT as usize]);

/// In an entry: learned from a block that may not be regular. Others of its size are measured, too,
/// until one of a plain function has the same slack.
const OF_MEASURED: u32 = 1 << 31;

impl BySize {
    #[inline(always)]
    fn entry(&self, size: u64) -> Option<u32> {
        self.0.get(size as usize).map(|entry| entry.load(Ordering::Relaxed))
    }

    /// Slack of a block that is regular.
    #[inline(always)]
    fn known(&self, size: u64) -> Option<u64> {
        u64::from(self.entry(size)? & !OF_MEASURED).checked_sub(1)
    }

    /// Slack of every block of a plain function.
    #[inline(always)]
    fn of_plain(&self, size: u64) -> Option<u64> {
        self.known(size).filter(|_| !self.needs_measuring(size))
    }

    fn needs_measuring(&self, size: u64) -> bool {
        self.entry(size).is_some_and(|entry| entry & OF_MEASURED != 0)
    }

    /// Notes the first block of a size; an entry does not change, because blocks that were counted
    /// by it are freed by it.
    fn learn(&self, size: u64, usable: u64, flag: u32) {
        if let Some(entry) = self.0.get(size as usize) {
            let slack = usable.saturating_sub(size) as u32 & !OF_MEASURED;
            let new = slack.saturating_add(1) | flag;
            let _ = entry.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// A block of a plain function has the slack of the entry.
    fn confirm(&self, size: u64) {
        if let Some(entry) = self.0.get(size as usize) {
            entry.fetch_and(!OF_MEASURED, Ordering::Relaxed);
        }
    }
}

impl Slack {
    /// Sets which allocator the dynamic linker leads to.
    pub(crate) fn begin(&self, allocator: AllocatorKind) {
        self.is_glibc.store(allocator == AllocatorKind::Glibc, Ordering::Relaxed);
    }

    /// The table of a family other than the linked one.
    #[inline(always)]
    fn other(&self, family: Family) -> Option<&BySize> {
        self.others.get(family.0.checked_sub(1)?)
    }

    /// Slack of a regular block, if a table has it.
    #[inline(always)]
    pub(crate) fn known(&self, size: u64, family: Family) -> Option<u64> {
        match family {
            Family::LINKED => self.linked.known(size),
            _ => self.other(family)?.known(size),
        }
    }

    /// What a table has of a regular block.
    #[inline(always)]
    pub(crate) fn regular(&self, size: u64, family: Family) -> Option<Regular> {
        match family {
            Family::LINKED => self.linked.regular(size),
            _ => Some(Regular { slack: self.other(family)?.known(size)?, class: ClassOffset::of(size) }),
        }
    }

    /// What a table has of a regular block that is new; one that was measured is regular.
    #[inline(always)]
    pub(crate) fn regular_of_new(&self, size: u64, source: Source) -> Option<Regular> {
        match source.family {
            Family::LINKED => self.linked.regular(size),
            family if source.is_measured => self.regular(size, family),
            family => {
                Some(Regular { slack: self.other(family)?.of_plain(size)?, class: ClassOffset::of(size) })
            }
        }
    }

    /// Slack that a block of `size` bytes would have, if that is known without one.
    pub(crate) fn before_allocation(&self, size: u64) -> Option<u64> {
        let known = self.known(size, Family::LINKED);
        known.or_else(|| self.computed(Family::LINKED, size).map(|usable| usable - size))
    }

    /// Usable bytes of a regular block, if they follow from the size alone.
    fn computed(&self, family: Family, size: u64) -> Option<u64> {
        let is_glibc = family == Family::LINKED && self.is_glibc.load(Ordering::Relaxed);
        (is_glibc && size < LIMIT).then(|| glibc_usable(size))
    }

    /// Slack of a block that was just allocated.
    pub(crate) fn of_new(&self, address: u64, size: u64, source: Source) -> NewSlack {
        let Source { family, is_measured } = source;
        let other = self.other(family);
        let is_measured = is_measured || other.is_some_and(|table| table.needs_measuring(size));
        let usable = match self.computed(family, size) {
            None if is_measured => measured(address, size, family),
            _ => None,
        };
        let Some(usable) = usable else {
            return NewSlack { bytes: self.of_regular(address, size, family), is_regular: true };
        };
        if let Some(table) = other {
            table.learn(size, usable, OF_MEASURED);
        }
        let bytes = usable.saturating_sub(size);
        let is_regular = size >= LIMIT || self.known(size, family) == Some(bytes);
        if let Some(table) = other.filter(|_| is_regular && !source.is_measured) {
            table.confirm(size);
        }
        NewSlack { bytes, is_regular }
    }

    /// Slack of a live block that was removed from its index.
    pub(crate) fn of_removed(&self, address: u64, removed: &Removed, family: Family) -> u64 {
        let size = removed.block.size;
        if removed.is_hashed
            && self.computed(family, size).is_none()
            && let Some(usable) = measured(address, size, family)
        {
            return usable.saturating_sub(size);
        }
        self.of_regular(address, size, family)
    }

    /// Slack of a live block that is regular.
    fn of_regular(&self, address: u64, size: u64, family: Family) -> u64 {
        self.known(size, family).unwrap_or_else(|| self.learn(address, size, family))
    }

    /// Slack of the first regular block of a size, or of one of [`LIMIT`] bytes and more. An entry
    /// of another thread counts, which was there first: the block is freed by it.
    #[cold]
    fn learn(&self, address: u64, size: u64, family: Family) -> u64 {
        let usable = match self.other(family) {
            None => {
                let computed = self.computed(family, size.next_multiple_of(GRANULE));
                let usable = computed.or_else(|| measured(address, size, family));
                let usable = usable.unwrap_or(size.next_multiple_of(OF_ARENAS));
                self.linked.learn(size, usable);
                usable
            }
            Some(table) => {
                let by_classes = || families::usable_by_classes(family, size);
                let usable = measured(address, size, family).or_else(by_classes);
                if usable.is_none() && families::has_usable_size(family) {
                    return 0;
                }
                let usable = usable.unwrap_or(size);
                table.learn(size, usable, 0);
                usable
            }
        };
        self.known(size, family).unwrap_or(usable.saturating_sub(size))
    }
}

/// Usable bytes of a live block; `None` when its allocator has no function for that: the arenas of
/// a runtime have none.
pub(crate) fn measured(address: u64, size: u64, family: Family) -> Option<u64> {
    match family {
        Family::LINKED => (!arenas::hold(address)).then(|| hooks::usable_size(address as *mut c_void) as u64),
        _ => families::usable_size(family, address, size),
    }
}

/// glibc keeps 8 bytes beside a block, rounds to 16, and has no chunk below 32 bytes.
fn glibc_usable(size: u64) -> u64 {
    ((size + 8).next_multiple_of(16)).max(32) - 8
}

#[cfg(test)]
mod tests {
    use heapwise_format::segment::IndexKind;

    use super::*;
    use crate::live::{self, Live};

    #[test]
    fn glibc_rounds_like_its_source() {
        for (size, usable) in
            [(0, 24), (1, 24), (24, 24), (25, 40), (40, 40), (41, 56), (1000, 1000), (1001, 1016)]
        {
            assert_eq!(glibc_usable(size), usable, "{size}");
        }
    }

    /// The linked table answers for all sizes of a granule, the other one for one size.
    #[test]
    fn tables_answer_for_what_they_learned() {
        let linked = &ByGranule([const { AtomicU32::new(0) }; (LIMIT / GRANULE) as usize + 1]);
        linked.learn(33, 48);
        let known: Vec<_> = (32..=41).map(|size| linked.known(size)).collect();
        let of_granule = (33..=40).map(|size| Some(48 - size));
        assert!(known[1..9].iter().copied().eq(of_granule), "{known:?}");
        assert_eq!((known[0], known[9], linked.known(LIMIT + 1)), (None, None, None));
        let other = BySize([const { AtomicU32::new(0) }; LIMIT as usize]);
        other.learn(33, 48, 0);
        other.learn(34, 34, OF_MEASURED);
        other.learn(34, 48, 0);
        assert_eq!([32, 33, 34, LIMIT].map(|size| other.known(size)), [None, Some(15), Some(0), None]);
        assert_eq!([33, 34].map(|size| other.of_plain(size)), [Some(15), None]);
        other.confirm(34);
        assert_eq!(other.of_plain(34), Some(0));
    }

    /// The slack that is added for a block in an arena is subtracted when the block is freed, from
    /// either index, whatever another allocator does with blocks of that size.
    #[test]
    fn blocks_in_arenas_are_regular() {
        const ARENA: u64 = 0x6_0000_0000;
        let session = &*crate::session::TestSession::new();
        let slack = &session.slack;
        arenas::add(ARENA, 1 << 20);
        slack.linked.learn(130, 160);
        for (size, bytes) in [(100, 12), (130, 30)] {
            for is_measured in [false, true] {
                let new = slack.of_new(ARENA, size, Source { is_measured, ..Source::LINKED });
                assert_eq!(new, NewSlack { bytes, is_regular: true }, "{size}");
            }
            for index in [IndexKind::Shadow, IndexKind::Hash] {
                live::choose(session, index);
                live::insert(session, ARENA, Live { tally: 1, size }, true);
                let removed = live::remove(session, ARENA, |_| false).expect("a live block");
                assert_eq!(slack.of_removed(ARENA, &removed, Family::LINKED), bytes, "{size}");
            }
        }
        arenas::remove(ARENA, 1 << 20);
    }
}
