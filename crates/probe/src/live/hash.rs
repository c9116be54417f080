//! The hash index of live blocks: from address to tally and size, without locks and without
//! rehashing.
//!
//! A level is an array of groups of eight slots (four cache lines); an address has one group per
//! level. When all its groups are full, a level four times as large is added. Removing leaves a
//! free slot behind: nothing degrades with time. A slot has one writer from claim to publication;
//! only the thread that frees a block removes it.
#![allow(unsafe_code)]

use heapwise_format::segment::{Counter, LIVE_FIRST_LEVEL, Layout, LiveBlock, SectionKind};

use super::{Live, Removed, alloc_times};
use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::segment::{self, Segment};
use crate::session::Session;

/// Slots of a group.
const GROUP: u64 = 8;
/// Groups of 4 KiB.
const GROUPS_OF_PAGE: u64 = 16;
/// `LiveBlock::address` of a slot that is being written.
const CLAIMED: u64 = 1;

/// The hash index of a session. Zeroed memory is valid: one level.
pub(super) struct Hash {
    /// Levels in use, less 1. Private: what is in the segment may be overwritten by others.
    more_levels: AtomicU32,
    /// It has held a block.
    is_used: AtomicBool,
}

impl Hash {
    fn levels(&self) -> u32 {
        1 + self.more_levels.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Threads share the line as long as none of them writes to it.
    fn set_used(&self) {
        if !self.is_used() {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }
}

/// Starts with one level.
pub(crate) fn describe(segment: &Segment) {
    segment.counter(Counter::LiveLevels).store(1, Ordering::Relaxed);
}

/// Levels that fit the section.
fn most_levels(segment: &Segment) -> u32 {
    (segment.section(SectionKind::Live).capacity / LIVE_FIRST_LEVEL * 3 + 1).ilog2() / 2
}

/// Blocks of one page of the heap are in groups of one page of the index: blocks that the program
/// uses together have entries that are close together. The page is chosen by a hash; the order of
/// groups in it as well, because large blocks all begin at the same offset of their pages.
#[inline(always)]
fn group(level: u32, address: u64) -> u64 {
    let (start, slots) = Layout::live_level(level);
    let hash = (address >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let pages = slots / GROUP / GROUPS_OF_PAGE;
    let page = hash >> (64 - pages.ilog2());
    let in_page = (address >> 8 ^ hash) % GROUPS_OF_PAGE;
    start + (page * GROUPS_OF_PAGE + in_page) * GROUP
}

/// The slots of a group in the order in which a block tries them. Blocks of 32 bytes that are side
/// by side start with different ones.
#[inline(always)]
fn slots(group: *mut u8, address: u64) -> impl Iterator<Item = *mut u8> {
    (0..GROUP).map(move |step| {
        let index = (address >> 5).wrapping_add(step) % GROUP;
        // SAFETY: a group has `GROUP` slots, all in one step of pages because groups are aligned.
        unsafe { group.add(index as usize * size_of::<LiveBlock>()) }
    })
}

/// Inserts a block; false when there is no room.
#[inline]
pub(crate) fn insert(session: &Session, address: u64, block: Live) -> bool {
    let segment = &session.segment;
    let hash = &session.live.hash;
    let levels = hash.levels();
    hash.set_used();
    if (0..levels).rev().any(|level| insert_in(segment, level, address, block)) {
        return true;
    }
    if levels >= most_levels(segment) || !insert_in(segment, levels, address, block) {
        return false;
    }
    if hash.more_levels.fetch_max(levels, Ordering::AcqRel) < levels {
        segment.counter(Counter::LiveLevels).fetch_max(u64::from(levels + 1), Ordering::Relaxed);
    }
    true
}

/// The parts of a slot, each accessed in one width only: accesses of other widths that race with
/// them would be undefined behavior.
struct Parts<'a> {
    key: &'a AtomicU64,
    tally: &'a AtomicU32,
    alloc_time: &'a AtomicU32,
    size: &'a AtomicU64,
}

/// # Safety
/// A slot of the table.
#[inline(always)]
unsafe fn parts<'a>(slot: *mut u8) -> Parts<'a> {
    // SAFETY: the caller's promise.
    unsafe {
        Parts {
            key: segment::word64(slot, 0),
            tally: segment::word32(slot, 8),
            alloc_time: segment::word32(slot, 12),
            size: segment::word64(slot, 16),
        }
    }
}

#[inline(always)]
fn insert_in(segment: &Segment, level: u32, address: u64, block: Live) -> bool {
    let Some(group) = segment.record(SectionKind::Live, group(level, address)) else { return false };
    slots(group, address).any(|slot| {
        // SAFETY: a slot of the group.
        let Parts { key, tally, alloc_time, size } = unsafe { parts(slot) };
        if key.load(Ordering::Relaxed) != 0
            || key.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return false;
        }
        tally.store(block.tally, Ordering::Relaxed);
        alloc_time.store(0, Ordering::Relaxed);
        size.store(block.size, Ordering::Relaxed);
        key.store(address, Ordering::Release);
        true
    })
}

/// The slot of a block, if it is there.
fn find(session: &Session, address: u64) -> Option<*mut u8> {
    // `free(NULL)`: an empty slot looks the same.
    if address == 0 || !session.live.hash.is_used() {
        return None;
    }
    let levels = session.live.hash.levels();
    (0..levels).rev().find_map(|level| {
        let group = session.segment.existing(SectionKind::Live, group(level, address))?;
        slots(group, address).find(|slot| {
            // SAFETY: as in `insert_in`.
            unsafe { segment::word64(*slot, 0) }.load(Ordering::Acquire) == address
        })
    })
}

/// A block that is in the index.
pub(crate) struct Hashed<'a>(Parts<'a>);

impl Hashed<'_> {
    pub(crate) fn block(&self) -> Live {
        let Parts { tally, size, .. } = &self.0;
        Live { tally: tally.load(Ordering::Relaxed), size: size.load(Ordering::Relaxed) }
    }

    pub(crate) fn remove(self) {
        self.0.key.store(0, Ordering::Release);
    }
}

/// A block, if it is there.
#[inline]
pub(super) fn get(session: &Session, address: u64) -> Option<Hashed<'_>> {
    // SAFETY: as in `insert_in`.
    find(session, address).map(|slot| Hashed(unsafe { parts(slot) }))
}

/// Removes a block; `None` when it was not there.
#[inline]
pub(crate) fn remove(session: &Session, address: u64) -> Option<Removed> {
    let hashed = get(session, address)?;
    let block = hashed.block();
    let alloc_time = alloc_times::from_word(hashed.0.alloc_time.load(Ordering::Relaxed));
    hashed.remove();
    Some(Removed { block, alloc_time, is_hashed: true })
}

/// Where the allocation time of a block is kept in its slot, if the block is there.
pub(super) fn alloc_time(session: &Session, address: u64) -> Option<&AtomicU32> {
    // SAFETY: as in `insert_in`.
    find(session, address).map(|slot| unsafe { parts(slot) }.alloc_time)
}

/// Clears the allocation times of all blocks.
pub(super) fn clear_alloc_times(session: &Session) {
    let (end, _) = Layout::live_level(session.live.hash.levels());
    for index in 0..end {
        if let Some(slot) = session.segment.existing(SectionKind::Live, index) {
            // SAFETY: as in `insert_in`.
            unsafe { parts(slot) }.alloc_time.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::session::TestSession;

    /// Small blocks side by side, page-aligned large ones, and scattered ones, coming and going.
    #[test]
    fn agrees_with_a_map() {
        let session = TestSession::new();
        let removed = |address| remove(&session, address).map(|removed| removed.block);
        let mut seed = 7_u64;
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let mut oracle = HashMap::new();
        for turn in 0..300_000_u32 {
            let address = match random() % 3 {
                0 => 0x5555_0000_0000 + random() % 60_000 * 32,
                1 => 0x7f00_0000_0010 + random() % 20_000 * 4096,
                _ => 0x10_0000_0000 + random() % (1 << 36) / 8 * 8,
            };
            if let Some(block) = oracle.remove(&address) {
                assert_eq!(removed(address), Some(block), "{address:#x}");
                assert_eq!(removed(address), None);
            } else {
                let block = Live { tally: turn + 1, size: random() };
                assert!(insert(&session, address, block), "room for {} blocks", oracle.len());
                oracle.insert(address, block);
            }
        }
        for (address, block) in oracle {
            assert_eq!(removed(address), Some(block), "{address:#x}");
        }
        assert_eq!(removed(0), None, "null is no block");
    }
}
