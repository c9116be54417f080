//! The buckets of a recording, with their counts.
//!
//! Programs repeat themselves: the bucket that followed another once usually follows it again. Each row
//! remembers its successor, so most lookups compare one row that is in the cache already and hash nothing;
//! most others find their bucket in a small table without chains.

use heapwise_format::recording::SiteBucket;
use rustc_hash::FxHashMap;

use crate::recording::{Count, Counts};

/// A bucket and what happened to its blocks: two rows to a cache line.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    size: u64,
    node: u32,
    successor: u32,
    count: Count,
}

impl Row {
    #[inline]
    fn site(&self) -> SiteBucket {
        SiteBucket { node: self.node, size: self.size }
    }
}

/// Places of the small table: 64 KiB, what a core's own cache holds besides the rest.
const RECENT_BITS: u32 = 14;

/// All buckets; row 0 is nobody's.
#[derive(Debug)]
pub(super) struct Sites {
    rows: Vec<Row>,
    by_site: FxHashMap<SiteBucket, u32>,
    recent: Vec<u32>,
    last: u32,
}

impl Default for Sites {
    fn default() -> Self {
        Self {
            rows: vec![Row::default()],
            by_site: FxHashMap::default(),
            recent: vec![0; 1 << RECENT_BITS],
            last: 0,
        }
    }
}

/// A place in the small table: the product's high bits depend on all bits of both.
#[inline]
fn place(site: SiteBucket) -> usize {
    /// 2⁶⁴ divided by the golden ratio, as Knuth has it.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (u64::from(site.node) << 32 ^ site.size).wrapping_mul(SPREAD);
    (mixed >> (64 - RECENT_BITS)) as usize
}

impl Sites {
    /// The number of a site's bucket, made on first use.
    #[inline]
    pub(super) fn bucket(&mut self, site: SiteBucket) -> u32 {
        let guess = self.rows[self.last as usize].successor;
        let bucket = if self.is(guess, site) { guess } else { self.find(site) };
        self.last = bucket;
        bucket
    }

    #[inline]
    fn is(&self, bucket: u32, site: SiteBucket) -> bool {
        bucket != 0 && self.rows[bucket as usize].site() == site
    }

    #[inline]
    fn find(&mut self, site: SiteBucket) -> u32 {
        let place = place(site);
        let mut bucket = self.recent[place];
        if !self.is(bucket, site) {
            bucket = self.find_or_make(site);
            self.recent[place] = bucket;
        }
        self.rows[self.last as usize].successor = bucket;
        bucket
    }

    #[inline(never)]
    fn find_or_make(&mut self, site: SiteBucket) -> u32 {
        *self.by_site.entry(site).or_insert_with(|| {
            self.rows.push(Row { size: site.size, node: site.node, ..Row::default() });
            self.rows.len() as u32 - 1
        })
    }

    /// Counts an allocation; the size of the block.
    #[inline]
    pub(super) fn alloc(&mut self, bucket: u32) -> u64 {
        let row = &mut self.rows[bucket as usize];
        row.count.allocs += 1;
        row.size
    }

    /// Counts a free; the size of the block.
    #[inline]
    pub(super) fn free(&mut self, bucket: u32) -> u64 {
        let row = &mut self.rows[bucket as usize];
        row.count.frees += 1;
        row.size
    }

    /// Counts a block that came and went; its size.
    #[inline]
    pub(super) fn pass(&mut self, bucket: u32) -> u64 {
        let row = &mut self.rows[bucket as usize];
        row.count.pass();
        row.size
    }

    /// Brings a row into the cache: a number that depends on it.
    #[inline]
    pub(super) fn touch(&self, bucket: u32) -> u64 {
        self.rows.get(bucket as usize).map_or(0, |row| row.size)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The sites from `first` on.
    pub(super) fn from(&self, first: usize) -> impl ExactSizeIterator<Item = SiteBucket> + '_ {
        self.rows[first.min(self.rows.len())..].iter().map(Row::site)
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::new(self.rows.len());
        for (bucket, row) in self.rows.iter().enumerate() {
            *counts.row(bucket as u32) = row.count;
        }
        counts
    }
}
