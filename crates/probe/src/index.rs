//! From the address of a live block to its bucket, whichever mode recorded it.

use heapwise_format::segment::{Bucket, Counter, IndexKind};

use crate::atomics::{AtomicBool, Ordering};
use crate::{buckets, filter, live, segment, shadow, tallies};

/// New exact blocks go to the shadow index.
static SHADOW: AtomicBool = AtomicBool::new(false);
/// The shadow index may hold blocks.
static SHADOW_USED: AtomicBool = AtomicBool::new(false);
/// The hash index may hold exact blocks, which the page filter does not know.
static HASH_EXACT: AtomicBool = AtomicBool::new(false);

/// Starts empty (again after `fork`).
pub(crate) fn init() {
    live::init();
    shadow::init();
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

/// Whether the shadow index is for this address. Under allocators with classes of 8 bytes two blocks can share
/// 16 bytes; the second of them is in the hash.
#[inline(always)]
pub(crate) fn is_shadowed(address: u64) -> bool {
    address.is_multiple_of(16)
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
pub(crate) fn insert(address: u64, bucket: u32, rate: u16, born_ms: u32) -> bool {
    let inserted = if rate != 0 {
        let inserted = live::insert(address, bucket, born_ms);
        if inserted {
            filter::add(address);
        }
        inserted
    } else if SHADOW.load(Ordering::Relaxed) && is_shadowed(address) {
        match shadow::insert(address, bucket) {
            Ok(None) => true,
            Ok(Some(old)) => {
                tallies::add_free_shared(old);
                true
            }
            Err(shadow::NoRoom) => false,
        }
    } else {
        live::insert(address, bucket, born_ms)
    };
    if !inserted {
        segment::count(Counter::LostLive);
    }
    inserted
}

/// Whether the block at `address` may have been remembered.
#[inline(always)]
pub(crate) fn may_hold(address: u64) -> bool {
    holds_exact_blocks() || filter::may_hold(address)
}

/// Forgets a block; number and record of its bucket.
#[inline(always)]
pub(crate) fn remove(address: u64) -> Option<(u32, Bucket)> {
    let mut in_hash = HASH_EXACT.load(Ordering::Relaxed);
    if SHADOW_USED.load(Ordering::Relaxed) {
        if !is_shadowed(address) {
            in_hash = true;
        } else if let Some(number) = shadow::remove(address) {
            return Some((number, buckets::record(number)?));
        }
    }
    if !in_hash && !filter::may_hold(address) {
        return None;
    }
    let number = live::remove(address)?;
    let bucket = buckets::record(number)?;
    if bucket.rate != 0 {
        filter::remove(address);
    }
    Some((number, bucket))
}
