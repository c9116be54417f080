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
    owned: OwnedSize,
    node: u32,
    successor: u32,
    count: Count,
}

impl Row {
    fn site(&self) -> SiteBucket {
        SiteBucket { node: self.node, size: self.owned.size(), thread: self.owned.thread() }
    }
}

/// A size and the thread that asked for it, in one word so that both are compared at once: no address space has room
/// for a block of 2⁴⁸ bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct OwnedSize(u64);

impl OwnedSize {
    const SIZE_BITS: u32 = 48;

    #[inline]
    fn size(self) -> u64 {
        self.0 & ((1 << Self::SIZE_BITS) - 1)
    }

    fn thread(self) -> u16 {
        (self.0 >> Self::SIZE_BITS) as u16
    }

    /// The same thread with another size.
    #[inline]
    fn with_size(self, size: u64) -> Self {
        Self(self.0 | size)
    }

    /// Nothing, of a thread.
    fn of(thread: u16) -> Self {
        Self(u64::from(thread) << Self::SIZE_BITS)
    }
}

/// Places of the small table: 64 KiB, what a core's own cache holds besides the rest.
const RECENT_BITS: u32 = 14;

/// All buckets; row 0 is nobody's.
#[derive(Debug)]
pub(super) struct Sites {
    rows: Vec<Row>,
    by_site: FxHashMap<(u32, OwnedSize), u32>,
    recent: Vec<u32>,
    last: u32,
    /// The thread that allocates, with no size.
    thread: OwnedSize,
}

impl Default for Sites {
    fn default() -> Self {
        Self {
            rows: vec![Row::default()],
            by_site: FxHashMap::default(),
            recent: vec![0; 1 << RECENT_BITS],
            last: 0,
            thread: OwnedSize::default(),
        }
    }
}

/// A place in the small table: the product's high bits depend on all bits of both.
#[inline]
fn place(node: u32, owned: OwnedSize) -> usize {
    /// 2⁶⁴ divided by the golden ratio, as Knuth has it.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (u64::from(node) << 32 ^ owned.0).wrapping_mul(SPREAD);
    (mixed >> (64 - RECENT_BITS)) as usize
}

impl Sites {
    /// What follows is by `thread`.
    pub(super) fn switch(&mut self, thread: u32) {
        self.thread = OwnedSize::of(u16::try_from(thread).unwrap_or(SiteBucket::NO_THREAD));
        // What one thread does next says nothing about another's bucket.
        self.last = 0;
    }

    /// The number of the current thread's bucket for a stack and a size, made on first use.
    #[inline]
    pub(super) fn bucket(&mut self, node: u32, size: u64) -> u32 {
        let owned = self.thread.with_size(size);
        let guess = self.rows[self.last as usize].successor;
        let bucket = if self.is(guess, node, owned) { guess } else { self.find(node, owned) };
        self.last = bucket;
        bucket
    }

    #[inline]
    fn is(&self, bucket: u32, node: u32, owned: OwnedSize) -> bool {
        let row = &self.rows[bucket as usize];
        bucket != 0 && row.node == node && row.owned == owned
    }

    #[inline]
    fn find(&mut self, node: u32, owned: OwnedSize) -> u32 {
        let place = place(node, owned);
        let mut bucket = self.recent[place];
        if !self.is(bucket, node, owned) {
            bucket = self.find_or_make(node, owned);
            self.recent[place] = bucket;
        }
        self.rows[self.last as usize].successor = bucket;
        bucket
    }

    #[inline(never)]
    fn find_or_make(&mut self, node: u32, owned: OwnedSize) -> u32 {
        *self.by_site.entry((node, owned)).or_insert_with(|| {
            self.rows.push(Row { owned, node, ..Row::default() });
            self.rows.len() as u32 - 1
        })
    }

    /// Counts an allocation; the size of the block.
    #[inline]
    pub(super) fn alloc(&mut self, bucket: u32) -> u64 {
        let row = &mut self.rows[bucket as usize];
        row.count.allocs += 1;
        row.owned.size()
    }

    /// Counts a free; the size of the block.
    #[inline]
    pub(super) fn free(&mut self, bucket: u32) -> u64 {
        let row = &mut self.rows[bucket as usize];
        row.count.frees += 1;
        row.owned.size()
    }

    /// Counts a block that came and went; its size.
    #[inline]
    pub(super) fn pass(&mut self, bucket: u32) -> u64 {
        let row = &mut self.rows[bucket as usize];
        row.count.pass();
        row.owned.size()
    }

    /// Brings a row into the cache: a number that depends on it.
    #[inline]
    pub(super) fn touch(&self, bucket: u32) -> u64 {
        self.rows.get(bucket as usize).map_or(0, |row| row.owned.size())
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
