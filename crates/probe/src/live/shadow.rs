//! The shadow index of live blocks: one `u32` per 32 bytes of heap, found by address in three loads.
//!
//! For blocks at multiples of 16, no two of which begin in the same 32 bytes (see `index::is_shadowed`). Where blocks that are not here may
//! begin there too, which half of them a block begins in stands in its word. Root, directories and leaves are in the segment, for readers; the probe finds
//! its way by a private copy of the two upper levels, which holds pointers to leaves that may be touched.
#![allow(unsafe_code)]

use heapwise_format::segment::{AllocatorKind, Counter, SectionKind};

use crate::address_map::{AddressMap, BLOCK_BITS, GIB_BITS};
use crate::arch::expect_write;
use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::segment;

/// The way to the leaves, one for each 128 KiB.
static MAP: Map = AddressMap::new();
type Map = AddressMap<AtomicU32, { 1 << 13 }>;

/// In the word of a block that begins in the second half of its 32 bytes, beside its bucket.
const HALF: u32 = 1 << 31;

/// No two blocks of the allocator begin in the same 32 bytes.
static APART: AtomicBool = AtomicBool::new(false);

/// Directories and leaves handed out. Private: the segment may be overwritten by others.
static DIRECTORIES: AtomicU64 = AtomicU64::new(0);
static LEAVES: AtomicU64 = AtomicU64::new(0);

/// Starts empty, over an allocator (again after `fork`).
pub(crate) fn init(allocator: AllocatorKind) {
    // The smallest chunk of glibc has 32 bytes.
    APART.store(allocator == AllocatorKind::Glibc, Ordering::Relaxed);
    if DIRECTORIES.swap(0, Ordering::Relaxed) != 0 {
        MAP.clear();
    }
    LEAVES.store(0, Ordering::Relaxed);
}

/// Whether this segment has a shadow index.
pub(crate) fn exists() -> bool {
    segment::section(SectionKind::ShadowRoot).capacity != 0
}

/// Where the bucket of a block is kept.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    word: &'static AtomicU32,
    /// [`HALF`] or nothing.
    half: u32,
}

impl Cell {
    /// It will be written to in a moment.
    #[inline(always)]
    pub(crate) fn expect(self) {
        expect_write(self.word);
    }

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.word.load(Ordering::Relaxed) == 0
    }

    /// The bucket of the block, or a number that none has: 0, or one beyond all of them.
    #[inline(always)]
    pub(crate) fn number(self) -> u32 {
        self.word.load(Ordering::Relaxed) ^ self.half
    }

    /// The bucket of the block, if it is there.
    #[inline(always)]
    pub(crate) fn bucket(self) -> Option<u32> {
        Some(self.number()).filter(|number| *number != 0 && number & HALF == 0)
    }

    #[inline(always)]
    pub(crate) fn put(self, bucket: u32) {
        self.word.store(bucket | self.half, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn clear(self) {
        self.word.store(0, Ordering::Relaxed);
    }
}

/// Whether no two blocks of the allocator, of any size, begin in the same 32 bytes.
#[inline(always)]
pub(crate) fn are_apart() -> bool {
    APART.load(Ordering::Relaxed)
}

/// The cell of an address, if its leaf is there. Never of null, nor of one that is no multiple of 16.
#[inline(always)]
pub(crate) fn known(address: u64) -> Option<Cell> {
    if are_apart() { known_where::<true>(address) } else { known_where::<false>(address) }
}

/// The same where it is known whether blocks [are apart](are_apart).
#[inline(always)]
pub(crate) fn known_where<const APART: bool>(address: u64) -> Option<Cell> {
    // Of a multiple of 16, only the highest bit is left.
    let half = if APART { 0 } else { (address as u32) << (31 - BLOCK_BITS) };
    MAP.known(address).map(|word| Cell { word, half })
}

#[cold]
#[inline(never)]
fn made(address: u64) -> Option<Cell> {
    if !Map::may_be_block(address) {
        return None;
    }
    let root = segment::record(SectionKind::ShadowRoot, address >> GIB_BITS)?;
    let directory = grown(root, 0, SectionKind::ShadowDirectories, &DIRECTORIES)?;
    let leaf = grown(directory, Map::in_gibibyte(address), SectionKind::ShadowLeaves, &LEAVES)?;
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

/// What became of a block that was to be remembered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    Done,
    /// In the place of one that was freed by a way that is not hooked; its bucket.
    Instead(u32),
    /// Another block begins in the same 32 bytes.
    Taken,
    /// No room for a table, or an address beyond user space.
    NoRoom,
}

/// Remembers a block.
#[inline(always)]
pub(crate) fn insert(address: u64, bucket: u32) -> Insertion {
    let Some(cell) = known(address).or_else(|| made(address)) else { return Insertion::NoRoom };
    let insertion = match cell.bucket() {
        Some(old) => Insertion::Instead(old),
        None if cell.is_empty() => Insertion::Done,
        None => return Insertion::Taken,
    };
    cell.put(bucket);
    insertion
}

/// Forgets a block; its bucket, or `None` when it was not there.
#[inline(always)]
pub(crate) fn remove(address: u64) -> Option<u32> {
    let cell = known(address)?;
    let bucket = cell.bucket()?;
    cell.clear();
    Some(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_across_gibibytes_and_beyond_no_address() {
        segment::for_tests();
        let addresses = [0x2_0000, 0x3_fff0, 0x4_0000, 0x4000_0000 - 16, 0x4000_0000, 0x7fff_ffff_fff0];
        for (number, address) in (1..).zip(addresses) {
            assert_eq!(insert(address, number), Insertion::Done, "{address:#x}");
        }
        for (number, address) in (1..).zip(addresses) {
            assert_eq!(remove(address), Some(number), "{address:#x}");
            assert_eq!(remove(address), None);
        }
        assert_eq!([1 << 48, 0].map(|address| insert(address, 1)), [const { Insertion::NoRoom }; 2]);
        assert_eq!(remove(u64::MAX - 15), None);
    }

    #[test]
    fn a_block_that_was_never_freed_is_told() {
        segment::for_tests();
        for address in [0x1234_0000, 0x1234_0030] {
            assert_eq!(insert(address, 5), Insertion::Done);
            assert_eq!(insert(address, 6), Insertion::Instead(5));
            assert_eq!(remove(address), Some(6));
        }
    }

    /// Whichever is there first.
    #[test]
    fn of_two_blocks_in_the_same_32_bytes_one_is_remembered() {
        segment::for_tests();
        for (first, second) in [(0x1235_0000, 0x1235_0010), (0x1235_0030, 0x1235_0020)] {
            assert_eq!(insert(first, 5), Insertion::Done);
            assert_eq!(insert(second, 6), Insertion::Taken);
            assert_eq!(remove(second), None);
            assert!(known(second).is_some_and(|cell| cell.number() > HALF), "beyond all buckets");
            assert_eq!(remove(first), Some(5));
            assert_eq!(insert(second, 6), Insertion::Done);
            assert_eq!((remove(first), remove(second)), (None, Some(6)));
        }
    }
}
