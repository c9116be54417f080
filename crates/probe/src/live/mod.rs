//! From the address of a live block to its bucket, whichever mode recorded it.

use heapwise_format::segment::{AllocatorKind, Bucket, Counter, IndexKind};

use crate::atomics::{AtomicBool, Ordering};
use crate::shadow::Insertion;
use crate::{buckets, filter, live, segment, shadow, tallies};

/// New exact blocks go to the shadow index.
static SHADOW: AtomicBool = AtomicBool::new(false);
/// The shadow index may hold blocks.
static SHADOW_USED: AtomicBool = AtomicBool::new(false);
/// The hash index may hold exact blocks, which the page filter does not know.
static HASH_EXACT: AtomicBool = AtomicBool::new(false);

/// Starts empty, over an allocator (again after `fork`).
pub(crate) fn init(allocator: AllocatorKind) {
    live::init();
    shadow::init(allocator);
    filter::clear();
    for used in [&SHADOW, &SHADOW_USED, &HASH_EXACT] {
        used.store(false, Ordering::Relaxed);
    }
}

/// Chooses where exact blocks go from now on.
pub(crate) fn choose(wanted: IndexKind) -> IndexKind {
    let shadow = wanted != IndexKind::Hash && shadow::exists();
    SHADOW.store(shadow, Ordering::Relaxed);
    if shadow { &SHADOW_USED } else { &HASH_EXACT }.store(true, Ordering::Relaxed);
    if shadow { IndexKind::Shadow } else { IndexKind::Hash }
}

/// Blocks that are larger do not begin in the same 32 bytes, if they are at multiples of 16.
const NEAR_BYTES: u64 = 16;

/// Whether the shadow index is for such a block. The others, which are of allocators with classes of 8 and 16 bytes,
/// are in the hash.
#[inline(always)]
pub(crate) fn is_shadowed(address: u64, size: u64) -> bool {
    address.is_multiple_of(16) && (is_large(size) || shadow::are_apart())
}

/// Whether it is for a block of this size under every allocator.
#[inline(always)]
pub(crate) fn is_large(size: u64) -> bool {
    size > NEAR_BYTES
}

/// Whether new exact blocks go to the shadow index.
pub(crate) fn is_shadow() -> bool {
    SHADOW.load(Ordering::Relaxed)
}

/// Whether every free has to be looked up.
pub(crate) fn holds_exact_blocks() -> bool {
    SHADOW_USED.load(Ordering::Relaxed) || HASH_EXACT.load(Ordering::Relaxed)
}

/// Remembers a block; false (counted) when there is no room.
#[inline(always)]
pub(crate) fn insert(address: u64, size: u64, bucket: u32, rate: u16, born_ms: u32) -> bool {
    let inserted = if rate != 0 {
        let inserted = live::insert(address, bucket, born_ms);
        if inserted {
            filter::add(address);
        }
        inserted
    } else if SHADOW.load(Ordering::Relaxed) && is_shadowed(address, size) {
        match shadow::insert(address, bucket) {
            Insertion::Done => true,
            Insertion::Instead(old) => {
                tallies::add_free_shared(old);
                true
            }
            Insertion::Taken => insert_in_hash(address, bucket, born_ms),
            Insertion::NoRoom => false,
        }
    } else {
        insert_in_hash(address, bucket, born_ms)
    };
    if !inserted {
        segment::count(Counter::LostLive);
    }
    inserted
}

fn insert_in_hash(address: u64, bucket: u32, born_ms: u32) -> bool {
    if !HASH_EXACT.load(Ordering::Relaxed) {
        HASH_EXACT.store(true, Ordering::Relaxed);
    }
    live::insert(address, bucket, born_ms)
}

/// Whether the block at `address` may have been remembered.
#[inline(always)]
pub(crate) fn may_hold(address: u64) -> bool {
    holds_exact_blocks() || filter::may_hold(address)
}

/// Forgets a block; number and record of its bucket.
#[inline(always)]
pub(crate) fn remove(address: u64) -> Option<(u32, Bucket)> {
    if SHADOW_USED.load(Ordering::Relaxed)
        && let Some(number) = shadow::remove(address)
    {
        return Some((number, buckets::record(number)?));
    }
    if !HASH_EXACT.load(Ordering::Relaxed) && !filter::may_hold(address) {
        return None;
    }
    let number = live::remove(address)?;
    let bucket = buckets::record(number)?;
    if bucket.rate != 0 {
        filter::remove(address);
    }
    Some((number, bucket))
}
