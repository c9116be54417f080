//! The buckets of a recording, with their counts.
//!
//! Programs repeat themselves: the bucket that followed another once usually follows it again. Each row
//! remembers its successor, so most lookups compare one row that is in the cache already and hash nothing.

use heapwise_format::recording::SiteBucket;
use rustc_hash::FxHashMap;

use crate::recording::{Count, Counts};

/// A bucket and what happened to its blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Row {
    pub site: SiteBucket,
    pub count: Count,
    successor: u32,
}

/// All buckets; row 0 is nobody's.
#[derive(Debug)]
pub(super) struct Sites {
    rows: Vec<Row>,
    by_site: FxHashMap<SiteBucket, u32>,
    last: u32,
}

impl Default for Sites {
    fn default() -> Self {
        Self { rows: vec![Row::default()], by_site: FxHashMap::default(), last: 0 }
    }
}

impl Sites {
    /// The number of a site's bucket, made on first use; its count gets one more allocation.
    #[inline]
    pub(super) fn alloc(&mut self, site: SiteBucket) -> u32 {
        let guess = self.rows[self.last as usize].successor;
        let bucket =
            if guess != 0 && self.rows[guess as usize].site == site { guess } else { self.find(site) };
        self.last = bucket;
        self.rows[bucket as usize].count.allocs += 1;
        bucket
    }

    #[inline(never)]
    fn find(&mut self, site: SiteBucket) -> u32 {
        let bucket = *self.by_site.entry(site).or_insert_with(|| {
            self.rows.push(Row { site, ..Row::default() });
            self.rows.len() as u32 - 1
        });
        self.rows[self.last as usize].successor = bucket;
        bucket
    }

    /// Counts a free; the size of the block.
    #[inline]
    pub(super) fn free(&mut self, bucket: u32) -> u64 {
        match self.rows.get_mut(bucket as usize) {
            Some(row) => {
                row.count.frees += 1;
                row.site.size
            }
            None => 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The sites from `first` on.
    pub(super) fn from(&self, first: usize) -> impl ExactSizeIterator<Item = SiteBucket> + '_ {
        self.rows[first.min(self.rows.len())..].iter().map(|row| row.site)
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::new(self.rows.len());
        for (bucket, row) in self.rows.iter().enumerate() {
            *counts.row(bucket as u32) = row.count;
        }
        counts
    }
}
