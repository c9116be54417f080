//! The shadow index of live blocks: one `u32` per 16 bytes of heap, found by address in three loads.
//!
//! For blocks at multiples of 16. Root, directories and leaves are in the
//! segment; a directory or leaf that has a number is real and may be touched.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use heapwise_format::segment::{Counter, SectionKind};

use crate::segment;

/// Addresses of user space have 48 bits, the root covers them all.
const ADDRESS_BITS: u32 = 48;
const GIB_BITS: u32 = 30;
const LEAF_BITS: u32 = 16;
const GRANULE_BITS: u32 = 4;

/// Directories and leaves handed out. Private: the segment may be overwritten by others.
static DIRECTORIES: AtomicU64 = AtomicU64::new(0);
static LEAVES: AtomicU64 = AtomicU64::new(0);

/// Starts empty (again after `fork`).
pub(crate) fn init() {
    DIRECTORIES.store(0, Ordering::Relaxed);
    LEAVES.store(0, Ordering::Relaxed);
}

/// Whether this segment has a shadow index.
pub(crate) fn exists() -> bool {
    segment::section(SectionKind::ShadowRoot).capacity != 0
}

fn entry(table: *mut u8, index: u64) -> &'static AtomicU32 {
    // SAFETY: `index` is masked to the table's size by the callers.
    unsafe { segment::word32(table, index as usize * 4) }
}

fn in_directory(address: u64) -> u64 {
    address >> LEAF_BITS & ((1 << (GIB_BITS - LEAF_BITS)) - 1)
}

fn in_leaf(address: u64) -> u64 {
    address >> GRANULE_BITS & ((1 << (LEAF_BITS - GRANULE_BITS)) - 1)
}

/// Table `number` of a section; 0 is none.
fn table(kind: SectionKind, number: u32) -> Option<*mut u8> {
    segment::existing(kind, u64::from(number).wrapping_sub(1))
}

fn known(address: u64) -> Option<&'static AtomicU32> {
    if address >> ADDRESS_BITS != 0 {
        return None;
    }
    let root = segment::existing(SectionKind::ShadowRoot, address >> GIB_BITS)?;
    let directory = table(SectionKind::ShadowDirectories, entry(root, 0).load(Ordering::Acquire))?;
    let leaf = entry(directory, in_directory(address)).load(Ordering::Acquire);
    Some(entry(table(SectionKind::ShadowLeaves, leaf)?, in_leaf(address)))
}

#[cold]
#[inline(never)]
fn made(address: u64) -> Option<&'static AtomicU32> {
    if address >> ADDRESS_BITS != 0 {
        return None;
    }
    let root = segment::record(SectionKind::ShadowRoot, address >> GIB_BITS)?;
    let directory =
        grown(entry(root, 0), SectionKind::ShadowDirectories, &DIRECTORIES, Counter::ShadowDirectories)?;
    let slot = entry(directory, in_directory(address));
    let leaf = grown(slot, SectionKind::ShadowLeaves, &LEAVES, Counter::ShadowLeaves)?;
    Some(entry(leaf, in_leaf(address)))
}

/// The table that `slot` names, added when it names none. A thread that loses the race wastes a table.
fn grown(slot: &'static AtomicU32, kind: SectionKind, used: &AtomicU64, shown: Counter) -> Option<*mut u8> {
    if let Some(found) = table(kind, slot.load(Ordering::Acquire)) {
        return Some(found);
    }
    let capacity = segment::section(kind).capacity;
    let claim = |count: u64| (count < capacity).then_some(count + 1);
    let index = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
    segment::record(kind, index)?;
    segment::counter(shown).fetch_max(index + 1, Ordering::Relaxed);
    let number = match slot.compare_exchange(0, index as u32 + 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => index as u32 + 1,
        Err(other) => other,
    };
    table(kind, number)
}

/// Remembers a block; the bucket of one that was there before (freed by a way that is not hooked).
#[inline]
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
#[inline]
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
        let addresses = [0x10, 0xfff0, 0x1_0000, 0x4000_0000 - 16, 0x4000_0000, 0x7fff_ffff_fff0];
        for (number, address) in (1..).zip(addresses) {
            assert!(matches!(insert(address, number), Ok(None)), "{address:#x}");
        }
        for (number, address) in (1..).zip(addresses) {
            assert_eq!(remove(address), Some(number), "{address:#x}");
            assert_eq!(remove(address), None);
        }
        assert!(insert(1 << ADDRESS_BITS, 1).is_err());
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
