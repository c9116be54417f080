//! The live-block index: from the address of a block to its tally and size, for blocks of all
//! modes.
//!
//! Exact and log mode and close samples use the shadow index, which covers most of the heap
//! directly; distant samples, blocks that the shadow index cannot hold, and `index:hash` use the
//! hash index. The page filter rejects most frees of blocks that are not samples without a lookup.
//!
//! *Invariant*: a block is inserted before the program gets it and removed before the allocator
//! gets it back. The synchronization that passes the block from thread to thread also orders the
//! entry, so relaxed accesses suffice.

mod address_map;
pub(crate) mod alloc_times;
pub(crate) mod filter;
mod hash;
pub(crate) mod mappings;
pub(crate) mod memory_calls;
mod ranges;
pub(crate) mod shadow;

use heapwise_format::segment::{AllocatorKind, IndexKind};

use crate::atomics::{AtomicBool, Ordering};
#[cfg(doc)]
use crate::record::usable;
use crate::runtimes::python::arenas;
use crate::session::Session;
use crate::sys;
use alloc_times::{AllocTime, AllocTimes};
use hash::{Hash, Hashed};
use mappings::Mappings;
use shadow::{Insertion, Shadow};

/// A live block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Live {
    /// Number of its tally.
    pub(crate) tally: u32,
    /// Requested bytes.
    pub(crate) size: u64,
}

/// A block that was removed from its index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Removed {
    pub(crate) block: Live,
    /// When it was allocated, in log mode.
    pub(crate) alloc_time: AllocTime,
    /// It was in the hash index.
    pub(crate) is_hashed: bool,
}

/// The live-block index of a session. Zeroed memory is valid: empty.
pub(crate) struct LiveIndex {
    /// New blocks go to the shadow index.
    is_shadow: AtomicBool,
    /// New samples go to the shadow index.
    are_samples_shadowed: AtomicBool,
    /// The shadow index may hold blocks.
    shadow_used: AtomicBool,
    /// An index may hold blocks that are not samples, which the page filter does not count.
    is_exact: AtomicBool,
    /// The hash index may hold such blocks.
    hash_exact: AtomicBool,
    hash: Hash,
    pub(crate) shadow: Shadow,
    pub(crate) alloc_times: AllocTimes,
    pub(crate) mappings: Mappings,
}

impl LiveIndex {
    /// Unmaps what is not part of the segment. No thread may use the index afterwards.
    pub(crate) fn release(&self) {
        self.shadow.release();
        self.alloc_times.release();
    }

    /// Whether the shadow index can hold a block. The others, which are of allocators with classes
    /// of 8 and 16 bytes, are in the hash index: two threads could change the same word. Arenas of
    /// an interpreter have such classes too, but its lock is held where they are used.
    #[inline(always)]
    fn is_shadowed(&self, address: u64, size: u64) -> bool {
        let is_exclusive = is_large(size) || self.shadow.has_min_chunk_32() || arenas::hold(address);
        address.is_multiple_of(16) && is_exclusive
    }

    /// Whether a block may start in the same 32 bytes as another one. Else that one was freed.
    fn may_be_second(&self, address: u64) -> bool {
        !self.shadow.has_min_chunk_32() || arenas::hold(address)
    }

    /// Whether new blocks go to the shadow index.
    pub(crate) fn is_shadow(&self) -> bool {
        self.is_shadow.load(Ordering::Relaxed)
    }

    /// Whether new samples go to the shadow index.
    #[inline(always)]
    pub(crate) fn are_samples_shadowed(&self) -> bool {
        self.are_samples_shadowed.load(Ordering::Relaxed)
    }

    /// Whether the hash index has held a block.
    #[inline(always)]
    pub(crate) fn is_hash_used(&self) -> bool {
        self.hash.is_used()
    }

    /// Whether every free has to be looked up.
    pub(crate) fn holds_exact_blocks(&self) -> bool {
        self.is_exact.load(Ordering::Relaxed)
    }
}

/// Starts empty, over an allocator.
pub(crate) fn describe(session: &Session, allocator: AllocatorKind) {
    hash::describe(&session.segment);
    session.live.shadow.begin(allocator);
}

/// Chooses the index of blocks from now on.
pub(crate) fn choose(session: &Session, wanted: IndexKind) -> IndexKind {
    let live = &session.live;
    let shadow = may_use_shadow(session, wanted);
    live.is_shadow.store(shadow, Ordering::Relaxed);
    live.is_exact.store(true, Ordering::Relaxed);
    if shadow { &live.shadow_used } else { &live.hash_exact }.store(true, Ordering::Relaxed);
    if shadow { IndexKind::Shadow } else { IndexKind::Hash }
}

fn may_use_shadow(session: &Session, wanted: IndexKind) -> bool {
    // The shadow index maps memory as the heap grows.
    let may_grow = session.live.shadow_used.load(Ordering::Relaxed) || !sys::are_syscalls_disabled();
    wanted != IndexKind::Hash && shadow::exists(session) && may_grow
}

/// Most mean distance of samples in the shadow index. With larger ones, most of its pages, each of
/// which is for 32 KiB of heap, would have few samples: the hash index uses less memory.
const MOST_SHADOWED_DISTANCE: u64 = 4096;

/// Chooses the index of samples from now on.
pub(crate) fn choose_for_samples(session: &Session, wanted: IndexKind, distance: u64) {
    let live = &session.live;
    let shadow = distance <= MOST_SHADOWED_DISTANCE && may_use_shadow(session, wanted);
    live.are_samples_shadowed.store(shadow, Ordering::Relaxed);
    if shadow {
        live.shadow_used.store(true, Ordering::Relaxed);
    }
}

/// Larger blocks at multiples of 16 do not start in the same 32 bytes.
const NEAR_BYTES: u64 = 16;

/// Whether the shadow index can hold a block of this size under every allocator.
#[inline(always)]
pub(crate) fn is_large(size: u64) -> bool {
    size > NEAR_BYTES
}

/// Inserts a sample. In the place of another one, whose free was not seen, it is counted twice by
/// the page filter: a lookup more, no sample less.
pub(crate) fn insert_sample(session: &Session, address: u64, block: Live, is_regular: bool) -> Inserted {
    let live = &session.live;
    let is_shadowed = is_regular && live.are_samples_shadowed() && live.is_shadowed(address, block.size);
    let shadowed = if is_shadowed { insert_shadowed(session, address, block) } else { None };
    let inserted = shadowed.unwrap_or_else(|| Inserted::or_no(hash::insert(session, address, block)));
    if !matches!(inserted, Inserted::No) {
        filter::add(address);
    }
    inserted
}

/// Inserts a block when every block is recorded. One that is not regular ([`usable`]) goes to the
/// hash index.
pub(crate) fn insert(session: &Session, address: u64, block: Live, is_regular: bool) -> Inserted {
    let live = &session.live;
    let is_shadowed = live.is_shadow() && live.is_shadowed(address, block.size);
    if is_shadowed
        && is_regular
        && let Some(inserted) = insert_shadowed(session, address, block)
    {
        return inserted;
    }
    if !live.hash_exact.load(Ordering::Relaxed) {
        live.hash_exact.store(true, Ordering::Relaxed);
    }
    if !hash::insert(session, address, block) {
        return Inserted::No;
    }
    // A block whose end the probe did not see; one that is regular would have replaced it.
    let old = if is_shadowed && !is_regular { shadow::remove(session, address) } else { None };
    old.map_or(Inserted::Yes, |block| Inserted::Replacing(shadowed(session, address, block)))
}

/// Inserts a block into the shadow index; `None` for one that belongs into the hash index because
/// another one starts in the same 32 bytes.
#[inline(always)]
fn insert_shadowed(session: &Session, address: u64, block: Live) -> Option<Inserted> {
    match shadow::insert(session, address, block) {
        Insertion::Done => Some(Inserted::Yes),
        Insertion::Replaced(block) => Some(Inserted::Replacing(shadowed(session, address, block))),
        Insertion::NoRoom => Some(Inserted::No),
        Insertion::Taken if session.live.may_be_second(address) => None,
        Insertion::Taken => Some(replace_neighbor(session, address, block)),
    }
}

/// Inserts a block in the place of one in the same 32 bytes whose free was not seen.
#[cold]
fn replace_neighbor(session: &Session, address: u64, block: Live) -> Inserted {
    let neighbor = address ^ NEAR_BYTES;
    let old = shadow::remove(session, neighbor).map(|block| shadowed(session, neighbor, block));
    match (shadow::insert(session, address, block), old) {
        (Insertion::Done, Some(old)) => Inserted::Replacing(old),
        (Insertion::Done, None) => Inserted::Yes,
        _ => Inserted::No,
    }
}

/// Inserts the second of two blocks of an arena that start in the same 32 bytes; false for others
/// and without room.
pub(crate) fn insert_second(session: &Session, address: u64, block: Live) -> bool {
    if !arenas::hold(address) {
        return false;
    }
    if !session.live.hash_exact.load(Ordering::Relaxed) {
        session.live.hash_exact.store(true, Ordering::Relaxed);
    }
    hash::insert(session, address, block)
}

/// The second of two blocks of an arena that start in the same 32 bytes, if it is such a block. The
/// slack of its size is computed.
pub(crate) fn get_second(session: &Session, address: u64) -> Option<Hashed<'_>> {
    let is_in_arena = session.live.shadow.has_min_chunk_32() && arenas::hold(address);
    if is_in_arena {
        hash::get(session, address).filter(|hashed| !is_large(hashed.block().size))
    } else {
        None
    }
}

/// A block that was removed from the shadow index.
fn shadowed(session: &Session, address: u64, block: Live) -> Removed {
    let alloc_time = session.live.alloc_times.take_shadowed(address);
    Removed { block, alloc_time, is_hashed: false }
}

/// Result of an insertion.
pub(crate) enum Inserted {
    Yes,
    /// At the address of a block whose free was not seen.
    Replacing(Removed),
    /// There is no room.
    No,
}

impl Inserted {
    fn or_no(is_inserted: bool) -> Inserted {
        if is_inserted { Inserted::Yes } else { Inserted::No }
    }
}

/// Removes a block; `is_sample` decides by its tally whether it is a sample.
#[inline]
pub(crate) fn remove(session: &Session, address: u64, is_sample: impl Fn(u32) -> bool) -> Option<Removed> {
    let live = &session.live;
    if live.shadow_used.load(Ordering::Relaxed)
        && let Some(block) = shadow::remove(session, address)
    {
        if is_sample(block.tally) {
            filter::remove(address);
        }
        return Some(shadowed(session, address, block));
    }
    if !live.hash_exact.load(Ordering::Relaxed) && !filter::may_hold(address) {
        return None;
    }
    let removed = hash::remove(session, address)?;
    if is_sample(removed.block.tally) {
        filter::remove(address);
    }
    Some(removed)
}

/// Inserts a removed block again: it was not freed.
pub(crate) fn put_back(session: &Session, address: u64, removed: &Removed, is_sample: bool) {
    if is_sample {
        insert_sample(session, address, removed.block, !removed.is_hashed);
    } else {
        insert(session, address, removed.block, !removed.is_hashed);
    }
    alloc_times::set(session, address, removed.alloc_time);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::TestSession;

    #[test]
    fn close_samples_are_in_the_shadow_index() {
        let session = &TestSession::new();
        session.live.shadow.begin(AllocatorKind::Glibc);
        for (distance, is_shadowed) in [(MOST_SHADOWED_DISTANCE, true), (MOST_SHADOWED_DISTANCE + 1, false)] {
            choose_for_samples(session, IndexKind::Auto, distance);
            // Not an address of the other tests, which share the filter.
            let (address, block) = (0x5555_7770_0000, Live { tally: 7, size: 100 });
            assert!(matches!(insert_sample(session, address, block, true), Inserted::Yes));
            assert_eq!(shadow::get(session, address), is_shadowed.then_some(block));
            assert!(filter::may_hold(address));
            assert_eq!(remove(session, address, |_| true).map(|removed| removed.block), Some(block));
            assert!(!filter::may_hold(address) && remove(session, address, |_| true).is_none());
        }
        assert!(!session.live.holds_exact_blocks());
    }

    #[test]
    fn two_blocks_in_32_bytes_are_both_kept_in_arenas_only() {
        let session = &TestSession::new();
        session.live.shadow.begin(AllocatorKind::Glibc);
        assert_eq!(choose(session, IndexKind::Shadow), IndexKind::Shadow);
        let insert = |address, tally| insert(session, address, Live { tally, size: 16 }, true);
        let tally_at = |address| remove(session, address, |_| false).map(|removed| removed.block.tally);

        let heap = 0x5555_0000_0000;
        assert!(matches!(insert(heap, 5), Inserted::Yes));
        let Inserted::Replacing(old) = insert(heap + 16, 6) else { panic!("no block was replaced") };
        assert_eq!(old.block.tally, 5);
        assert_eq!((tally_at(heap), tally_at(heap + 16)), (None, Some(6)));
        assert!(!insert_second(session, heap, Live { tally: 7, size: 16 }));

        let arena = 0x7f77_0000_0000;
        arenas::add(arena, 1 << 20);
        assert!(matches!(insert(arena + 16, 5), Inserted::Yes));
        assert!(matches!(insert(arena, 6), Inserted::Yes));
        assert_eq!(get_second(session, arena).map(|second| second.block().tally), Some(6));
        assert_eq!((tally_at(arena + 16), tally_at(arena)), (Some(5), Some(6)));
        assert!(insert_second(session, arena, Live { tally: 7, size: 16 }));
        assert_eq!((tally_at(arena), tally_at(arena)), (Some(7), None));
    }
}
