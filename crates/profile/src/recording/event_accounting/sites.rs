//! The sites of a recording, with their counts.
//!
//! Events name the program's tallies; a recording's sites are a stack and a thread. An array maps
//! one to the other, so an event costs one access to it and one to the counts.

use heapwise_format::event::MOST_TALLIES;
use heapwise_format::recording::{Site, SiteBlock};
use heapwise_format::segment::Tally;
use rustc_hash::FxHashMap;

use crate::recording::{Count, Counts};

/// All sites; number 0 is unused.
#[derive(Debug)]
pub(super) struct Sites {
    sites: Vec<Site>,
    counts: Vec<Count>,
    /// Number of the site of each tally; 0 for those not seen yet.
    by_tally: Vec<u32>,
    numbers: FxHashMap<Site, u32>,
}

impl Default for Sites {
    fn default() -> Self {
        Self {
            sites: vec![Site::default()],
            counts: vec![Count::default()],
            by_tally: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }
}

impl Sites {
    /// Number of the site of a tally that was seen before.
    #[inline(always)]
    pub(super) fn known(&self, tally: u32) -> Option<u32> {
        self.by_tally.get(tally as usize).copied().filter(|site| *site != 0)
    }

    /// Number of the site of a tally, made on first use; `None` when the tally cannot be described.
    #[inline]
    pub(super) fn number(
        &mut self,
        tally: u32,
        describe: &mut impl FnMut(u32) -> Option<Tally>,
    ) -> Option<u32> {
        self.known(tally).or_else(|| self.add_tally(tally, describe))
    }

    #[cold]
    #[inline(never)]
    fn add_tally(&mut self, tally: u32, describe: &mut impl FnMut(u32) -> Option<Tally>) -> Option<u32> {
        if tally == 0 || u64::from(tally) >= MOST_TALLIES {
            return None;
        }
        let Tally { node, thread, .. } = describe(tally)?;
        let site = Site { node, thread };
        let number = *self.numbers.entry(site).or_insert_with(|| {
            self.sites.push(site);
            self.counts.push(Count::default());
            // There are no more sites than tallies, whose numbers have 23 bits.
            self.sites.len() as u32 - 1
        });
        if self.by_tally.len() <= tally as usize {
            self.by_tally.resize(tally as usize + 1, 0);
        }
        self.by_tally[tally as usize] = number;
        Some(number)
    }

    /// Whether a block of this site was allocated by `thread`.
    pub(super) fn is_of_thread(&self, site: u32, thread: u32) -> bool {
        u32::from(self.sites[site as usize].thread) == thread
    }

    #[inline]
    pub(super) fn alloc(&mut self, block: SiteBlock) {
        self.counts[block.site as usize].alloc(block.size);
    }

    #[inline]
    pub(super) fn alloc_and_free(&mut self, block: SiteBlock) {
        self.counts[block.site as usize].alloc_and_free(block.size);
    }

    /// Counts a free; `false` when the live blocks of the site cannot include this one.
    #[inline]
    pub(super) fn free(&mut self, block: SiteBlock) -> bool {
        let count = &mut self.counts[block.site as usize];
        let live_bytes = count.alloc_bytes.wrapping_sub(count.freed_bytes);
        let is_possible = match count.allocs - count.frees {
            0 => false,
            1 => block.size == live_bytes,
            _ => block.size <= live_bytes,
        };
        if is_possible {
            count.free(block.size);
        }
        is_possible
    }

    pub(super) fn len(&self) -> usize {
        self.sites.len()
    }

    /// The sites from `first` on.
    pub(super) fn from(&self, first: usize) -> &[Site] {
        self.sites.get(first..).unwrap_or_default()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts::from_rows(self.counts.clone())
    }
}
