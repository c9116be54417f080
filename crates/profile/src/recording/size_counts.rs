//! Sums over the events of each site and size: exact size distributions.

use heapwise_format::recording::SiteBlock;
use rustc_hash::FxHashMap;

use super::{Count, Counts};

/// Something that counts blocks, in parts that can be added up.
pub(super) trait BlockCounts: Send {
    /// The count that a block belongs to.
    fn of(&mut self, block: SiteBlock) -> &mut Count;

    /// Adds the counts of other frames.
    fn add_part(&mut self, part: Self);
}

impl BlockCounts for Counts {
    #[inline]
    fn of(&mut self, block: SiteBlock) -> &mut Count {
        self.row(block.site)
    }

    fn add_part(&mut self, part: Self) {
        for (site, count) in part.rows().iter().enumerate() {
            self.row(site as u32).add(count);
        }
    }
}

/// Counts by site and size.
#[derive(Debug, Clone, Default)]
pub struct SizeCounts {
    by_block: FxHashMap<(u32, u64), Count>,
    /// Blocks from before the first event of the files, whose sizes are not known.
    before: Counts,
}

impl SizeCounts {
    /// Counts of nothing but blocks from before the first event.
    pub(super) fn starting_with(before: Counts) -> Self {
        Self { before, ..Self::default() }
    }

    /// All counts, by ascending site and size.
    #[must_use]
    pub fn rows(&self) -> Vec<(SiteBlock, Count)> {
        let rows = self.by_block.iter();
        let mut rows: Vec<_> = rows.map(|((site, size), count)| ((*site, *size), *count)).collect();
        rows.sort_unstable_by_key(|(block, _)| *block);
        rows.into_iter().map(|((site, size), count)| (SiteBlock { site, size }, count)).collect()
    }

    /// Blocks of unknown sizes, by site: those from before the first event of a rotated recording.
    #[must_use]
    pub(crate) fn of_unknown_size(&self) -> &Counts {
        &self.before
    }
}

impl BlockCounts for SizeCounts {
    #[inline]
    fn of(&mut self, block: SiteBlock) -> &mut Count {
        self.by_block.entry((block.site, block.size)).or_default()
    }

    fn add_part(&mut self, part: Self) {
        for (block, count) in part.by_block {
            self.by_block.entry(block).or_default().add(&count);
        }
        self.before.add_part(part.before);
    }
}
