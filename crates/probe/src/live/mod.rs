//! The live-block index: from the address of a block to its tally and size, for blocks of all
//! modes.
//!
//! Exact and log mode use the shadow index, which covers most of the heap directly; samples, blocks
//! that the shadow index cannot hold, and `index:hash` use the hash index. The page filter rejects
//! most frees of blocks that are not samples without a lookup.
//!
//! *Invariant*: a block is inserted before the program gets it and removed before the allocator
//! gets it back. The synchronization that passes the block from thread to thread also orders the
//! entry, so relaxed accesses suffice.

mod address_map;
pub(crate) mod births;
pub(crate) mod filter;
mod hash;
pub(crate) mod mappings;
mod ranges;
pub(crate) mod shadow;

use heapwise_format::segment::{AllocatorKind, IndexKind};

use crate::atomics::{AtomicBool, Ordering};
use births::Birth;
use shadow::Insertion;

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
    pub(crate) birth: Birth,
}

/// New blocks go to the shadow index.
static SHADOW: AtomicBool = AtomicBool::new(false);
/// The shadow index may hold blocks.
static SHADOW_USED: AtomicBool = AtomicBool::new(false);
/// The hash index may hold blocks that are not samples, which the page filter does not count.
static HASH_EXACT: AtomicBool = AtomicBool::new(false);

/// Starts empty, over an allocator (again after `fork`).
pub(crate) fn init(allocator: AllocatorKind) {
    hash::init();
    shadow::init(allocator);
    births::init();
    mappings::init();
    filter::clear();
    for used in [&SHADOW, &SHADOW_USED, &HASH_EXACT] {
        used.store(false, Ordering::Relaxed);
    }
}

/// Chooses the index of blocks from now on.
pub(crate) fn choose(wanted: IndexKind) -> IndexKind {
    let shadow = wanted != IndexKind::Hash && shadow::exists();
    SHADOW.store(shadow, Ordering::Relaxed);
    if shadow { &SHADOW_USED } else { &HASH_EXACT }.store(true, Ordering::Relaxed);
    if shadow { IndexKind::Shadow } else { IndexKind::Hash }
}

/// Larger blocks at multiples of 16 do not start in the same 32 bytes.
const NEAR_BYTES: u64 = 16;

/// Whether the shadow index can hold a block. The others, which are of allocators with classes of 8
/// and 16 bytes, are in the hash index.
#[inline(always)]
pub(crate) fn is_shadowed(address: u64, size: u64) -> bool {
    address.is_multiple_of(16) && (is_large(size) || shadow::has_min_chunk_32())
}

/// Whether it can hold a block of this size under every allocator.
#[inline(always)]
pub(crate) fn is_large(size: u64) -> bool {
    size > NEAR_BYTES
}

/// Whether new blocks go to the shadow index.
pub(crate) fn is_shadow() -> bool {
    SHADOW.load(Ordering::Relaxed)
}

/// Whether every free has to be looked up.
pub(crate) fn holds_exact_blocks() -> bool {
    SHADOW_USED.load(Ordering::Relaxed) || HASH_EXACT.load(Ordering::Relaxed)
}

/// Inserts a sample.
pub(crate) fn insert_sample(address: u64, block: Live) -> Inserted {
    if !hash::insert(address, block) {
        return Inserted::No;
    }
    filter::add(address);
    Inserted::Yes
}

/// Inserts a block when every block is recorded.
pub(crate) fn insert(address: u64, block: Live) -> Inserted {
    if SHADOW.load(Ordering::Relaxed) && is_shadowed(address, block.size) {
        match shadow::insert(address, block) {
            Insertion::Done => return Inserted::Yes,
            Insertion::Replaced(block) => {
                return Inserted::Replacing(Removed { block, birth: births::take_shadowed(address) });
            }
            Insertion::NoRoom => return Inserted::No,
            Insertion::Taken => {}
        }
    }
    if !HASH_EXACT.load(Ordering::Relaxed) {
        HASH_EXACT.store(true, Ordering::Relaxed);
    }
    if hash::insert(address, block) { Inserted::Yes } else { Inserted::No }
}

/// Result of an insertion.
pub(crate) enum Inserted {
    Yes,
    /// At the address of a block whose free was not seen.
    Replacing(Removed),
    /// There is no room.
    No,
}

/// Removes a block; `is_sample` decides by its tally whether it is a sample.
#[inline]
pub(crate) fn remove(address: u64, is_sample: impl Fn(u32) -> bool) -> Option<Removed> {
    if SHADOW_USED.load(Ordering::Relaxed)
        && let Some(block) = shadow::remove(address)
    {
        return Some(Removed { block, birth: births::take_shadowed(address) });
    }
    if !HASH_EXACT.load(Ordering::Relaxed) && !filter::may_hold(address) {
        return None;
    }
    let removed = hash::remove(address)?;
    if is_sample(removed.block.tally) {
        filter::remove(address);
    }
    Some(removed)
}

/// Inserts a removed block again: it was not freed.
pub(crate) fn put_back(address: u64, removed: &Removed, is_sample: bool) {
    if is_sample {
        insert_sample(address, removed.block);
    } else {
        insert(address, removed.block);
    }
    births::set(address, removed.birth);
}
