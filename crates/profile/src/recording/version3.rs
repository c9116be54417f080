//! Recordings of version 3: their buckets (stack, size, thread) become sites and sizes.

use heapwise_format::recording::version3::{BucketCount, Entry as OldEntry, SiteBucket};
use heapwise_format::recording::{Entry, Site, SiteBlock};
use rustc_hash::FxHashMap;

use super::Counts;

/// The buckets of a recording.
#[derive(Debug)]
pub(super) struct Buckets {
    /// Site and size of each bucket; number 0 is unused.
    blocks: Vec<SiteBlock>,
    numbers: FxHashMap<Site, u32>,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { blocks: vec![SiteBlock { site: 0, size: 0 }], numbers: FxHashMap::default() }
    }
}

impl Buckets {
    /// Adds the buckets of a frame, of which the first has number `first`, and their sites to
    /// `sites`; `None` when the frame makes no sense.
    pub(super) fn add(&mut self, first: usize, payload: &[u8], sites: &mut Vec<Site>) -> Option<()> {
        let (mut at, mut number) = (0, first);
        while at < payload.len() {
            let SiteBucket { node, size, thread } = SiteBucket::decode(payload, &mut at)?;
            let site = *self.numbers.entry(Site { node, thread }).or_insert_with_key(|site| {
                sites.push(*site);
                sites.len() as u32 - 1
            });
            let block = SiteBlock { site, size };
            match number.cmp(&self.blocks.len()) {
                std::cmp::Ordering::Less => *self.blocks.get_mut(number)? = block,
                std::cmp::Ordering::Equal => self.blocks.push(block),
                std::cmp::Ordering::Greater => return None,
            }
            number += 1;
        }
        Some(())
    }

    /// An entry as it would be now; `None` when its bucket does not exist.
    pub(super) fn entry(&self, entry: OldEntry) -> Option<Entry> {
        let block = |bucket: u32| self.blocks.get(bucket as usize).copied();
        Some(match entry {
            OldEntry::Alloc { bucket, kind } => Entry::Alloc { block: block(bucket)?, kind },
            OldEntry::Temporary { bucket, kind } => Entry::Temporary { block: block(bucket)?, kind },
            OldEntry::Free { bucket, age } => Entry::Free { block: block(bucket)?, age },
            OldEntry::MissedFree { bucket, age } => Entry::MissedFree { block: block(bucket)?, age },
            OldEntry::Tick(ms) => Entry::Tick(ms),
            OldEntry::Thread(thread) => Entry::Thread(thread),
            OldEntry::Gap(events) => Entry::Gap(events),
            OldEntry::UnknownFree(blocks) => Entry::UnknownFree(blocks),
        })
    }

    /// The counts of a checkpoint, for `sites` sites; `None` when it makes no sense.
    pub(super) fn counts(&self, payload: &[u8], sites: usize) -> Option<Counts> {
        let mut counts = Counts::new(sites);
        let (mut at, mut previous) = (0, 0);
        while at < payload.len() {
            let BucketCount { bucket, allocs, frees } = BucketCount::decode(previous, payload, &mut at)?;
            let SiteBlock { site, size } = *self.blocks.get(bucket as usize)?;
            let row = counts.row(site);
            row.allocs = row.allocs.wrapping_add(allocs);
            row.frees = row.frees.wrapping_add(frees);
            row.alloc_bytes = row.alloc_bytes.wrapping_add(allocs.wrapping_mul(size));
            row.freed_bytes = row.freed_bytes.wrapping_add(frees.wrapping_mul(size));
            previous = bucket;
        }
        Some(counts)
    }
}
