//! The live-block index of a segment: address, size and site of each recorded block.
//!
//! The probe changes the index while this reads it: a block that comes or goes meanwhile may be
//! missing, and the size word of a block that is just being stored may look like a small block.

use core::ops::Range;

use heapwise_format::bytes::{u32_at, u64_at};
use heapwise_format::segment::{
    BlockWord, Counter, Layout, LiveBlock, SHADOW_DIRECTORY_BYTES, SHADOW_LEAF_BYTES, SectionKind,
    SegmentSource, Tally,
};

use super::Snapshot;

/// A live block of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedBlock {
    /// Address. Over glibc it is known to 32 bytes: the block starts there or 16 bytes behind.
    pub address: u64,
    /// Requested bytes.
    pub size: u64,
    /// Number of its tally, an index of [`Snapshot::tally_sites`].
    pub tally: u32,
}

/// Site of a tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TallySite {
    /// Node of the stack tree.
    pub node: u32,
    /// Mean sampling distance in bytes; 0 where every block is recorded.
    pub mean_bytes: u64,
    /// Usable minus requested bytes of its live blocks. Negative where it counts the frees of
    /// another tally's blocks.
    pub slack: i64,
}

/// Bytes of heap per word of the shadow index.
const WORD_SPAN: u64 = 32;
/// Bytes of heap per leaf.
const LEAF_SPAN: u64 = SHADOW_LEAF_BYTES / 4 * WORD_SPAN;
/// Bytes of address space per directory.
const DIRECTORY_SPAN: u64 = SHADOW_DIRECTORY_BYTES / 4 * LEAF_SPAN;
/// In the word behind a block's own: the size is in the next two.
const HUGE: u32 = u32::MAX;

impl<S: SegmentSource> Snapshot<'_, S> {
    /// Calls `visit` for each block of the index: those of the shadow index by address, then those
    /// of the hash index.
    pub fn visit_live_blocks(&self, visit: &mut impl FnMut(IndexedBlock)) {
        self.visit_live_blocks_in(|_| true, visit);
    }

    /// As [`Snapshot::visit_live_blocks`], without the blocks of most ranges of addresses that are
    /// not `wanted`. A range is wanted if a block may start in it.
    pub fn visit_live_blocks_in(
        &self,
        wanted: impl Fn(Range<u64>) -> bool,
        visit: &mut impl FnMut(IndexedBlock),
    ) {
        self.visit_shadow(wanted, visit);
        self.visit_hash(visit);
    }

    fn visit_shadow(&self, wanted: impl Fn(Range<u64>) -> bool, visit: &mut impl FnMut(IndexedBlock)) {
        let root = self.layout().section(SectionKind::ShadowRoot);
        let root = self.block(SectionKind::ShadowRoot, 0, root.capacity);
        let mut reader = LeafReader { after: 0 };
        for (gibibyte, number) in words(&root).filter(|(_, number)| *number != 0) {
            let directory = self.block(SectionKind::ShadowDirectories, u64::from(number) - 1, 1);
            let start = gibibyte * DIRECTORY_SPAN;
            let is_wanted = |row: u64| {
                let first = start + row * LEAF_SPAN;
                // The first words of a wanted leaf may hold the size of a block in the one before.
                wanted(first..first + 2 * LEAF_SPAN)
            };
            let leaves = words(&directory).filter(|(row, number)| *number != 0 && is_wanted(*row));
            for (row, number) in leaves {
                // The size of the last block of a leaf is in the first words of the next one.
                let next = u32_at(&directory, (row as usize + 1) * 4).unwrap_or(0);
                let mut leaf = self.block(SectionKind::ShadowLeaves, u64::from(number) - 1, 1);
                if next != 0 {
                    let words = self.block(SectionKind::ShadowLeaves, u64::from(next) - 1, 1);
                    leaf.extend_from_slice(words.get(..16).unwrap_or_default());
                }
                reader.read(&leaf, start + row * LEAF_SPAN, visit);
            }
        }
    }

    fn visit_hash(&self, visit: &mut impl FnMut(IndexedBlock)) {
        const BLOCK: u64 = 1 << 15;
        let levels = self.counter_now(Counter::LiveLevels).min(16) as u32;
        let end = Layout::live_level(levels).0.min(self.layout().section(SectionKind::Live).capacity);
        let mut first = 0;
        while first < end {
            let bytes = self.block(SectionKind::Live, first, BLOCK.min(end - first));
            for record in bytes.chunks_exact(size_of::<LiveBlock>()) {
                // 1: the slot is being written.
                let Some(address) = u64_at(record, 0).filter(|address| *address > 1) else { continue };
                let (tally, size) = (u32_at(record, 8).unwrap_or(0), u64_at(record, 16).unwrap_or(0));
                visit(IndexedBlock { address, size, tally });
            }
            if bytes.is_empty() {
                break;
            }
            first += BLOCK;
        }
    }

    /// The site of each tally, by the tally's number.
    #[must_use]
    pub fn tally_sites(&self) -> Vec<TallySite> {
        const BLOCK: u64 = 4096;
        let rates = self.records(SectionKind::Rates, 0, self.counter_now(Counter::Rates));
        let count = self.counter_now(Counter::Tallies);
        let mut sites = Vec::new();
        while (sites.len() as u64) < count {
            let first = sites.len() as u64;
            let bytes = self.block(SectionKind::Tallies, first, BLOCK.min(count - first));
            if bytes.len() < size_of::<Tally>() {
                break;
            }
            sites.extend(bytes.chunks_exact(size_of::<Tally>()).map(|record| {
                let site = Tally::decode(record).map(|tally| TallySite {
                    node: tally.node,
                    mean_bytes: u64_at(&rates, usize::from(tally.rate) * 8).unwrap_or(0),
                    slack: tally.alloc_slack.wrapping_sub(tally.freed_slack) as i64,
                });
                site.unwrap_or_default()
            }));
        }
        sites
    }
}

/// Reads leaves in the order of addresses.
struct LeafReader {
    /// Words below this address hold the size of a block.
    after: u64,
}

impl LeafReader {
    fn read(&mut self, leaf: &[u8], start: u64, visit: &mut impl FnMut(IndexedBlock)) {
        for (index, word) in words(leaf).take((SHADOW_LEAF_BYTES / 4) as usize) {
            let address = start + index * WORD_SPAN;
            if word == 0 || address < self.after {
                continue;
            }
            let half = word & BlockWord::HALF;
            let word = BlockWord(word ^ half);
            let behind = |number| u32_at(leaf, (index as usize + number) * 4).unwrap_or(0);
            let (size, words) = match (word.size_code(), behind(1)) {
                (small, _) if small < BlockWord::LARGE => (small, 0),
                (_, HUGE) => (u64::from(behind(2)) | u64::from(behind(3)) << 32, 3),
                (_, size) => (size.into(), 1),
            };
            self.after = address + (words + 1) * WORD_SPAN;
            visit(IndexedBlock { address: address + u64::from(half >> 27), size, tally: word.tally() });
        }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = (u64, u32)> {
    (0..).zip(bytes.chunks_exact(4).map(|word| u32_at(word, 0).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(leaf: &[u32]) -> Vec<IndexedBlock> {
        let bytes: Vec<u8> = leaf.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut found = Vec::new();
        LeafReader { after: 0 }.read(&bytes, 0x2_0000, &mut |block| found.push(block));
        found
    }

    #[test]
    fn sizes_are_in_the_words_behind_large_blocks() {
        let word = |tally, size, half| BlockWord::new(tally, size, half).0;
        let leaf = [
            word(7, 20, 0),
            0,
            word(8, 100, 0),
            100,
            word(9, 1 << 40, BlockWord::HALF),
            HUGE,
            0,
            1 << 8,
            word(10, 8, 0),
        ];
        let block = |offset: u64, size, tally| IndexedBlock { address: 0x2_0000 + offset, size, tally };
        assert_eq!(
            blocks(&leaf),
            [block(0, 20, 7), block(64, 100, 8), block(128 + 16, 1 << 40, 9), block(256, 8, 10)]
        );
    }
}
