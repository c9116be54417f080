//! Which block lives at an address: direct-mapped by address, eight bytes per sixteen of touched heap.
//!
//! A hash table would cost a cache miss an event and, at load, as much memory for heaps of small
//! blocks. Leaves are zeroed allocations, so the untouched pages of a leaf are never real.

use rustc_hash::FxHashMap;

/// A live block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// Its bucket, 1..2³¹.
    pub bucket: u32,
    /// Millisecond of its allocation.
    pub born_ms: u32,
    /// Whether `realloc` made it.
    pub from_realloc: bool,
}

impl Block {
    const FROM_REALLOC: u64 = 1 << 63;

    #[inline]
    fn encode(self) -> u64 {
        let mark = if self.from_realloc { Self::FROM_REALLOC } else { 0 };
        mark | u64::from(self.bucket) << 32 | u64::from(self.born_ms)
    }

    #[inline]
    fn bucket_of(slot: u64) -> u32 {
        (slot >> 32) as u32 & !(1 << 31)
    }

    #[inline]
    fn decode(slot: u64) -> Option<Self> {
        (slot != 0).then_some(Self {
            bucket: Self::bucket_of(slot),
            born_ms: slot as u32,
            from_realloc: slot & Self::FROM_REALLOC != 0,
        })
    }
}

/// Bytes of heap a leaf covers: 2^20.
const LEAF_BITS: u32 = 20;
const GRANULE_BITS: u32 = 4;
const LEAF_SLOTS: usize = 1 << (LEAF_BITS - GRANULE_BITS);
/// Leaves remembered by the low bits of their number, so that most lookups hash nothing.
const RECENT: usize = 256;

#[derive(Debug)]
pub(super) struct LiveIndex {
    leaves: Vec<Vec<u64>>,
    by_number: FxHashMap<u64, u32>,
    recent: Vec<(u64, u32)>,
    /// Blocks at addresses that are no multiple of 16: few, and two may share a granule.
    odd: FxHashMap<u64, u64>,
}

impl Default for LiveIndex {
    fn default() -> Self {
        Self {
            leaves: Vec::new(),
            by_number: FxHashMap::default(),
            recent: vec![(u64::MAX, 0); RECENT],
            odd: FxHashMap::default(),
        }
    }
}

impl LiveIndex {
    /// Puts a block at `address`; returns the one that was still there.
    #[inline]
    pub(super) fn insert(&mut self, address: u64, block: Block) -> Option<Block> {
        if address & 15 != 0 {
            return self.odd.insert(address, block.encode()).and_then(Block::decode);
        }
        let slot = self.slot(address);
        Block::decode(std::mem::replace(slot, block.encode()))
    }

    /// Takes the block at `address`.
    #[inline]
    pub(super) fn remove(&mut self, address: u64) -> Option<Block> {
        if address & 15 != 0 {
            return self.odd.remove(&address).and_then(Block::decode);
        }
        Block::decode(std::mem::take(self.slot(address)))
    }

    /// Brings the place of an address into the cache; the bucket of the block there, 0 where that takes longer.
    /// Nothing here waits for what is read: many of these are under way at once.
    #[inline]
    pub(super) fn touch(&self, address: u64) -> u32 {
        let number = address >> LEAF_BITS;
        let (known, leaf) = self.recent[number as usize % RECENT];
        let leaf = if known == number { self.leaves.get(leaf as usize) } else { None };
        let slot = leaf.and_then(|leaf| leaf.get((address >> GRANULE_BITS) as usize % LEAF_SLOTS));
        slot.map_or(0, |slot| Block::bucket_of(*slot))
    }

    #[inline]
    fn slot(&mut self, address: u64) -> &mut u64 {
        let number = address >> LEAF_BITS;
        let (known, leaf) = self.recent[number as usize % RECENT];
        let leaf = if known == number { leaf } else { self.leaf(number) };
        &mut self.leaves[leaf as usize][(address >> GRANULE_BITS) as usize % LEAF_SLOTS]
    }

    #[cold]
    fn leaf(&mut self, number: u64) -> u32 {
        let leaf = *self.by_number.entry(number).or_insert_with(|| {
            self.leaves.push(vec![0; LEAF_SLOTS]);
            self.leaves.len() as u32 - 1
        });
        self.recent[number as usize % RECENT] = (number, leaf);
        leaf
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_map() {
        let (mut index, mut model) = (LiveIndex::default(), BTreeMap::new());
        let mut seed = 1u64;
        for step in 0..if cfg!(miri) { 300 } else { 100_000u32 } {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let address = 0x5500_0000_0000 + (seed >> 40) * 8;
            if seed >> 39 & 1 == 0 {
                let block = Block { bucket: step | 1, born_ms: step, from_realloc: step % 3 == 0 };
                assert_eq!(index.insert(address, block), model.insert(address, block));
            } else {
                assert_eq!(index.remove(address), model.remove(&address));
            }
        }
    }
}
