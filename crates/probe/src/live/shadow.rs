//! The shadow index of live blocks: one `u32` per 32 bytes of heap, found by address in three
//! loads.
//!
//! It holds blocks at multiples of 16. Of two that start in the same 32 bytes it holds the first;
//! no two threads insert or remove such blocks at the same time (see `live::is_shadowed`). A
//! block's word names its tally and holds its size when that is small; the words behind it, in
//! which no other block can start, hold larger sizes ([`BlockWord`]). Root, directories and leaves
//! are in the segment, for readers; the probe uses a private copy of the two upper levels, which
//! holds pointers to populated leaves.
#![allow(unsafe_code)]

use heapwise_format::segment::{AllocatorKind, BlockWord, Counter, SectionKind};

use super::Live;
use super::address_map::{AddressMap, BLOCK_BITS, GIB_BITS, Leaf};
use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::segment::{Segment, word32};
use crate::session::Session;

/// The leaves, one for each 128 KiB.
type Map = AddressMap<AtomicU32, { 1 << 13 }>;

/// The shadow index of a session. Zeroed memory is valid: empty.
pub(crate) struct Shadow {
    /// No two blocks of the allocator start in the same 32 bytes.
    min_chunk_32: AtomicBool,
    /// Directories and leaves handed out. Private: the segment may be overwritten by others.
    directories: AtomicU64,
    leaves: AtomicU64,
    map: Map,
}

/// Bytes of heap per word.
const WORD_SPAN: u64 = 32;
/// In the word behind a block's own: the size is in the next two.
const HUGE: u32 = u32::MAX;

impl Shadow {
    /// Sets which allocator is underneath.
    pub(super) fn begin(&self, allocator: AllocatorKind) {
        // The smallest chunk of glibc has 32 bytes.
        self.min_chunk_32.store(allocator == AllocatorKind::Glibc, Ordering::Relaxed);
    }

    /// Unmaps the upper levels. No thread may use the index afterwards.
    pub(super) fn release(&self) {
        if self.directories.load(Ordering::Relaxed) != 0 {
            self.map.release();
        }
    }

    /// Whether no two blocks of the allocator, of any size, start in the same 32 bytes.
    #[inline(always)]
    pub(crate) fn has_min_chunk_32(&self) -> bool {
        self.min_chunk_32.load(Ordering::Relaxed)
    }

    /// The cell of an address, if its leaf exists. Never of null, nor of an address that is not a
    /// multiple of 16.
    #[inline(always)]
    pub(crate) fn known(&self, address: u64) -> Option<Cell<'_>> {
        if self.has_min_chunk_32() {
            self.known_where::<true>(address)
        } else {
            self.known_where::<false>(address)
        }
    }

    /// As [`Shadow::known`], for callers that have already read [`Shadow::has_min_chunk_32`].
    #[inline(always)]
    pub(crate) fn known_where<const MIN_CHUNK_32: bool>(&self, address: u64) -> Option<Cell<'_>> {
        let half = (address as u32) << (31 - BLOCK_BITS) & BlockWord::HALF;
        // glibc ends a program that frees an address that is not a multiple of 16.
        let known = if MIN_CHUNK_32 { self.map.known_aligned(address) } else { self.map.known(address) };
        known.map(|(leaf, place)| Cell { leaf, place, half })
    }
}

/// Whether the segment has a shadow index.
pub(crate) fn exists(session: &Session) -> bool {
    session.segment.section(SectionKind::ShadowRoot).capacity != 0
}

/// The words of a block.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    leaf: &'a Leaf<AtomicU32>,
    place: usize,
    /// [`BlockWord::HALF`] or 0.
    half: u32,
}

impl<'a> Cell<'a> {
    #[inline(always)]
    fn word(self) -> &'a AtomicU32 {
        &self.leaf[self.place]
    }

    /// The block's word and the one behind it, unless that is in another leaf.
    #[inline(always)]
    pub(crate) fn pair(self) -> Option<CellPair<'a>> {
        let [word, behind] = self.leaf.get(self.place..self.place + 2)?.as_array()?;
        Some(CellPair { word, behind, half: self.half })
    }

    /// Whether another block starts in the same 32 bytes.
    fn is_taken(self) -> bool {
        let word = self.word().load(Ordering::Relaxed);
        word != 0 && (word ^ self.half) & BlockWord::HALF != 0
    }
}

/// A block's word and the one behind it: all words of a block below [`HUGE`] bytes.
#[derive(Clone, Copy)]
pub(crate) struct CellPair<'a> {
    word: &'a AtomicU32,
    behind: &'a AtomicU32,
    /// As in [`Cell`].
    half: u32,
}

impl CellPair<'_> {
    /// Whether another block starts in the same 32 bytes.
    #[inline(always)]
    pub(crate) fn is_taken(self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word != 0 && (word ^ self.half) & BlockWord::HALF != 0
    }

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.word.load(Ordering::Relaxed) == 0
    }

    /// Stores a block.
    #[inline(always)]
    pub(crate) fn put(self, tally: u32, size: u32) {
        if u64::from(size) >= BlockWord::LARGE {
            self.behind.store(size, Ordering::Relaxed);
        }
        self.word.store(BlockWord::new(tally, size.into(), self.half).0, Ordering::Relaxed);
    }

    /// The block that starts here, if it is below [`HUGE`] bytes.
    #[inline(always)]
    pub(crate) fn get(self) -> Option<Live> {
        let word = self.word.load(Ordering::Relaxed) ^ self.half;
        if word == 0 || word & BlockWord::HALF != 0 {
            return None;
        }
        let word = BlockWord(word);
        if word.size_code() < BlockWord::LARGE {
            return Some(Live { tally: word.tally(), size: word.size_code() });
        }
        let size = self.behind.load(Ordering::Relaxed);
        (size != HUGE).then(|| Live { tally: word.tally(), size: size.into() })
    }

    /// Removes a block of this size.
    #[inline(always)]
    pub(crate) fn clear(self, size: u64) {
        if size >= BlockWord::LARGE {
            self.behind.store(0, Ordering::Relaxed);
        }
        self.word.store(0, Ordering::Relaxed);
    }
}

fn known(session: &Session, address: u64) -> Option<Cell<'_>> {
    session.live.shadow.known(address)
}

/// The cell of an address, its leaf made when it is not there; `None` without room.
#[inline(always)]
fn cell(session: &Session, address: u64) -> Option<Cell<'_>> {
    known(session, address).or_else(|| make(session, address))
}

#[cold]
#[inline(never)]
fn make(session: &Session, address: u64) -> Option<Cell<'_>> {
    let Shadow { map, directories, leaves, .. } = &session.live.shadow;
    let segment = &session.segment;
    if !Map::may_be_block(address) {
        return None;
    }
    let root = segment.record(SectionKind::ShadowRoot, address >> GIB_BITS)?;
    let directory = grow(segment, root, 0, SectionKind::ShadowDirectories, directories)?;
    let index = Map::in_gibibyte(address);
    let leaf = grow(segment, directory, index, SectionKind::ShadowLeaves, leaves)?;
    // SAFETY: a populated leaf in the segment, which stays. A faster thread has published the same.
    unsafe { map.publish(address, leaf.cast()) };
    known(session, address)
}

/// The table that entry `index` of `table` names, added when it names none. A thread that loses the
/// race wastes a table.
fn grow(
    segment: &Segment,
    table: *mut u8,
    index: usize,
    kind: SectionKind,
    used: &AtomicU64,
) -> Option<*mut u8> {
    // SAFETY: `table` is populated and has that many entries.
    let slot = unsafe { word32(table, index * 4) };
    let named = |number: u32| segment.existing(kind, u64::from(number).wrapping_sub(1));
    if let Some(found) = named(slot.load(Ordering::Acquire)) {
        return Some(found);
    }
    let capacity = segment.section(kind).capacity;
    let claim = |count: u64| (count < capacity).then_some(count + 1);
    let index = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
    segment.record(kind, index)?;
    let shown = match kind {
        SectionKind::ShadowLeaves => Counter::ShadowLeaves,
        _ => Counter::ShadowDirectories,
    };
    segment.counter(shown).fetch_max(index + 1, Ordering::Relaxed);
    match slot.compare_exchange(0, index as u32 + 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => named(index as u32 + 1),
        Err(other) => named(other),
    }
}

/// Result of an insertion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    Done,
    /// In the place of a block whose free was not seen.
    Replaced(Live),
    /// Another block starts in the same 32 bytes.
    Taken,
    /// No room for a table, or an address beyond user space.
    NoRoom,
}

/// Inserts a block.
pub(crate) fn insert(session: &Session, address: u64, block: Live) -> Insertion {
    let Some(cell) = cell(session, address) else { return Insertion::NoRoom };
    if let Some(pair) = cell.pair().filter(|pair| pair.is_empty() && block.size < HUGE.into()) {
        pair.put(block.tally, block.size as u32);
        return Insertion::Done;
    }
    if cell.is_taken() {
        return Insertion::Taken;
    }
    let replaced = remove(session, address);
    match (cell.pair(), u32::try_from(block.size)) {
        (Some(pair), Ok(size)) if size != HUGE => pair.put(block.tally, size),
        _ if put_far(session, address, cell, block) => {}
        _ => return Insertion::NoRoom,
    }
    replaced.map_or(Insertion::Done, Insertion::Replaced)
}

/// Words behind that of a block, for its size.
fn size_words(size: u64) -> u64 {
    match size {
        0..BlockWord::LARGE => 0,
        _ if size < HUGE.into() => 1,
        _ => 3,
    }
}

/// Stores a block at the end of a leaf, or one whose size is in several words.
#[cold]
fn put_far(session: &Session, address: u64, cell: Cell<'_>, block: Live) -> bool {
    let mut words = [None; 3];
    let needed = words.get_mut(..size_words(block.size) as usize).unwrap_or_default();
    for (number, word) in (1..).zip(needed) {
        let Some(found) = self::cell(session, address + number * WORD_SPAN) else { return false };
        *word = Some(found.word());
    }
    let small = if words[1].is_some() { HUGE } else { block.size as u32 };
    let values = [small, block.size as u32, (block.size >> 32) as u32];
    for (word, value) in words.iter().flatten().zip(values) {
        word.store(value, Ordering::Relaxed);
    }
    cell.word().store(BlockWord::new(block.tally, block.size, cell.half).0, Ordering::Relaxed);
    true
}

/// The block at an address.
pub(crate) fn get(session: &Session, address: u64) -> Option<Live> {
    let cell = known(session, address)?;
    cell.pair().and_then(CellPair::get).or_else(|| get_far(session, address, cell))
}

#[cold]
fn get_far(session: &Session, address: u64, cell: Cell<'_>) -> Option<Live> {
    let load = |cell: Cell<'_>| cell.word().load(Ordering::Relaxed);
    let word = BlockWord(load(cell) ^ cell.half);
    if word.0 == 0 || word.0 & BlockWord::HALF != 0 {
        return None;
    }
    let behind = |number: u64| known(session, address + number * WORD_SPAN).map(load);
    let size = match word.size_code() {
        BlockWord::LARGE => match behind(1)? {
            HUGE => u64::from(behind(2)?) | u64::from(behind(3)?) << 32,
            size => size.into(),
        },
        size => size,
    };
    Some(Live { tally: word.tally(), size })
}

/// Removes a block; `None` when it was not there.
pub(crate) fn remove(session: &Session, address: u64) -> Option<Live> {
    let cell = known(session, address)?;
    if let Some(pair) = cell.pair()
        && let Some(block) = pair.get()
    {
        pair.clear(block.size);
        return Some(block);
    }
    let block = get_far(session, address, cell)?;
    clear(session, address, cell, block.size);
    Some(block)
}

/// Clears the words of a block: small blocks may start where a larger one had its size.
fn clear(session: &Session, address: u64, cell: Cell<'_>, size: u64) {
    for number in 1..=size_words(size) {
        if let Some(behind) = known(session, address + number * WORD_SPAN) {
            behind.word().store(0, Ordering::Relaxed);
        }
    }
    cell.word().store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::TestSession;

    fn block(tally: u32, size: u64) -> Live {
        Live { tally, size }
    }

    #[test]
    fn keeps_tally_and_size_across_leaves_and_gibibytes() {
        let session = &TestSession::new();
        // The last word of a leaf, and of a gibibyte, has its size in the next one.
        let addresses = [0x2_0000, 0x3_ffe0, 0x4_0000, 0x4000_0000 - 32, 0x4000_0020, 0x7fff_fff0_0000];
        let sizes = [0, 62, 63, 1000, u64::from(u32::MAX) - 1, u64::from(u32::MAX), 1 << 40];
        for size in sizes {
            for (number, address) in (1..).zip(addresses) {
                assert_eq!(
                    insert(session, address, block(number, size)),
                    Insertion::Done,
                    "{address:#x} {size}"
                );
                assert_eq!(get(session, address), Some(block(number, size)));
                assert_eq!(remove(session, address), Some(block(number, size)), "{address:#x} {size}");
                assert_eq!(remove(session, address), None);
            }
        }
        for address in [1 << 48, 0] {
            assert_eq!(insert(session, address, block(1, 1)), Insertion::NoRoom);
        }
        assert_eq!(remove(session, u64::MAX - 15), None);
    }

    #[test]
    fn an_unseen_free_is_reported() {
        let session = &TestSession::new();
        for address in [0x1234_0000, 0x1234_0030] {
            assert_eq!(insert(session, address, block(5, 20)), Insertion::Done);
            assert_eq!(insert(session, address, block(6, 2000)), Insertion::Replaced(block(5, 20)));
            assert_eq!(remove(session, address), Some(block(6, 2000)));
        }
    }

    #[test]
    fn of_two_blocks_in_the_same_32_bytes_the_first_is_kept() {
        let session = &TestSession::new();
        for (first, second) in [(0x1235_0000, 0x1235_0010), (0x1235_0030, 0x1235_0020)] {
            assert_eq!(insert(session, first, block(5, 16)), Insertion::Done);
            assert_eq!(insert(session, second, block(6, 16)), Insertion::Taken);
            assert_eq!(remove(session, second), None);
            assert!(get(session, second).is_none());
            assert_eq!(remove(session, first), Some(block(5, 16)));
            assert_eq!(insert(session, second, block(6, 16)), Insertion::Done);
            assert_eq!((remove(session, first), remove(session, second)), (None, Some(block(6, 16))));
        }
    }
}
