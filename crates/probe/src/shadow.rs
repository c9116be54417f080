//! The shadow index of live blocks: one `u32` per 16 bytes of heap, found by address in three loads.
//!
//! For blocks at multiples of 16. Root, directories and leaves are in the segment, for readers; the probe finds
//! its way by a private copy of the two upper levels, which holds pointers to leaves that may be touched.
#![allow(unsafe_code)]

use heapwise_format::segment::{Counter, SectionKind};

use crate::address_map::{AddressMap, GIB_BITS, in_gibibyte, may_be_block};
use crate::atomics::{AtomicU32, AtomicU64, Ordering};
use crate::segment;

/// The way to the leaves.
static MAP: AddressMap<AtomicU32> = AddressMap::new();

/// Directories and leaves handed out. Private: the segment may be overwritten by others.
static DIRECTORIES: AtomicU64 = AtomicU64::new(0);
static LEAVES: AtomicU64 = AtomicU64::new(0);

/// Starts empty (again after `fork`).
pub(crate) fn init() {
    if DIRECTORIES.swap(0, Ordering::Relaxed) != 0 {
        MAP.clear();
    }
    LEAVES.store(0, Ordering::Relaxed);
}

/// Whether this segment has a shadow index.
pub(crate) fn exists() -> bool {
    segment::section(SectionKind::ShadowRoot).capacity != 0
}

/// The word of an address, if its leaf is there: a bucket, or 0. Never of null, nor of one that is no multiple of 16.
#[inline(always)]
pub(crate) fn known(address: u64) -> Option<&'static AtomicU32> {
    MAP.known(address)
}

#[cold]
#[inline(never)]
fn made(address: u64) -> Option<&'static AtomicU32> {
    if !may_be_block(address) {
        return None;
    }
    let root = segment::record(SectionKind::ShadowRoot, address >> GIB_BITS)?;
    let directory = grown(root, 0, SectionKind::ShadowDirectories, &DIRECTORIES)?;
    let leaf = grown(directory, in_gibibyte(address), SectionKind::ShadowLeaves, &LEAVES)?;
    // SAFETY: a leaf in the segment, which is real and stays. Who was faster has published the same.
    unsafe { MAP.publish(address, leaf.cast()) };
    known(address)
}

/// The table that entry `index` of `table` names, added when it names none. A thread that loses the race
/// wastes a table.
fn grown(table: *mut u8, index: usize, kind: SectionKind, used: &AtomicU64) -> Option<*mut u8> {
    // SAFETY: `table` is real and has that many entries.
    let slot = unsafe { segment::word32(table, index * 4) };
    let named = |number: u32| segment::existing(kind, u64::from(number).wrapping_sub(1));
    if let Some(found) = named(slot.load(Ordering::Acquire)) {
        return Some(found);
    }
    let capacity = segment::section(kind).capacity;
    let claim = |count: u64| (count < capacity).then_some(count + 1);
    let index = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
    segment::record(kind, index)?;
    let shown = match kind {
        SectionKind::ShadowLeaves => Counter::ShadowLeaves,
        _ => Counter::ShadowDirectories,
    };
    segment::counter(shown).fetch_max(index + 1, Ordering::Relaxed);
    match slot.compare_exchange(0, index as u32 + 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => named(index as u32 + 1),
        Err(other) => named(other),
    }
}

/// Remembers a block; the bucket of one that was there before (freed by a way that is not hooked).
#[inline(always)]
pub(crate) fn insert(address: u64, bucket: u32) -> Result<Option<u32>, NoRoom> {
    let granule = known(address).or_else(|| made(address)).ok_or(NoRoom)?;
    let old = granule.load(Ordering::Relaxed);
    granule.store(bucket, Ordering::Relaxed);
    Ok((old != 0).then_some(old))
}

/// Why a block was not remembered: no room for a table, or an address beyond user space.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// Forgets a block; its bucket, or `None` when it was not there.
#[inline(always)]
pub(crate) fn remove(address: u64) -> Option<u32> {
    let granule = known(address)?;
    let bucket = granule.load(Ordering::Relaxed);
    if bucket == 0 {
        return None;
    }
    granule.store(0, Ordering::Relaxed);
    Some(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_across_gibibytes_and_beyond_no_address() {
        segment::for_tests();
        let addresses = [0x1_0000, 0x1_fff0, 0x2_0000, 0x4000_0000 - 16, 0x4000_0000, 0x7fff_ffff_fff0];
        for (number, address) in (1..).zip(addresses) {
            assert!(matches!(insert(address, number), Ok(None)), "{address:#x}");
        }
        for (number, address) in (1..).zip(addresses) {
            assert_eq!(remove(address), Some(number), "{address:#x}");
            assert_eq!(remove(address), None);
        }
        assert!(insert(1 << 48, 1).is_err() && insert(0, 1).is_err());
        assert_eq!(remove(u64::MAX - 15), None);
    }

    #[test]
    fn a_block_that_was_never_freed_is_told() {
        segment::for_tests();
        assert!(matches!(insert(0x1234_0000, 5), Ok(None)));
        assert!(matches!(insert(0x1234_0000, 6), Ok(Some(5))));
        assert_eq!(remove(0x1234_0000), Some(6));
    }
}
