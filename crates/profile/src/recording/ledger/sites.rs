//! The buckets of a recording, with their counts.
//!
//! Events name the program's buckets and the thread that allocated; a recording's buckets are a stack, a size and a thread.
//! The way from one to the other is a table without chains, of one word an entry: an event costs one look at it and one at
//! a row.

use heapwise_format::event::{MOST_BUCKETS, NO_THREAD};
use heapwise_format::recording::SiteBucket;
use heapwise_format::segment::{Bucket, CallKind};
use rustc_hash::FxHashMap;

use crate::recording::{Count, Counts};

/// What happened to the blocks of a bucket: two rows to a cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(32))]
struct Row {
    count: Count,
    size: u64,
    node: u32,
    thread: u16,
    /// Frees are booked that came before their allocations.
    is_indebted: bool,
}

impl Row {
    fn bucket(&self) -> SiteBucket {
        SiteBucket { node: self.node, size: self.size, thread: self.thread }
    }
}

/// Where a block came from: a bucket of the recording, and whether by `realloc`, which the recording's buckets do not
/// distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Site(u32);

impl Site {
    const BITS: u32 = 29;
    const REALLOC: u32 = 1 << (Self::BITS - 1);

    /// Number of the bucket in the recording.
    #[inline]
    pub(super) fn bucket(self) -> u32 {
        self.0 & (Self::REALLOC - 1)
    }

    #[inline]
    pub(super) fn is_realloc(self) -> bool {
        self.0 & Self::REALLOC != 0
    }
}

/// One of the program's buckets, as used by one thread: never 0. It stands above the site in a slot, which is the two
/// in one word; an empty slot is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key(u64);

const _: () = assert!(MOST_BUCKETS * (NO_THREAD as u64 + 1) < 1 << (u64::BITS - Site::BITS));

impl Key {
    #[inline]
    fn new(bucket: u32, thread: u32) -> Self {
        Self((u64::from(thread.min(NO_THREAD)) * MOST_BUCKETS + u64::from(bucket) + 1) << Site::BITS)
    }

    fn of_slot(slot: u64) -> Self {
        Self(slot >> Site::BITS << Site::BITS)
    }

    /// The site in a slot of this key.
    #[inline]
    fn site_in(self, slot: u64) -> Option<Site> {
        let site = slot ^ self.0;
        (site < 1 << Site::BITS).then_some(Site(site as u32))
    }

    /// The place of its slot, the first of those where it may be, in a table of 2^(64 - `shift`) lines. Buckets that were
    /// made one after the other are used together, so those of a line stay together.
    #[inline]
    fn place(self, shift: u32) -> usize {
        /// 2⁶⁴ divided by the golden ratio, as Knuth has it: the product's high bits depend on all bits of a number, and
        /// numbers in sequence fall far from each other.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let number = self.0 >> Site::BITS;
        let line = (number >> LINE_BITS).wrapping_mul(SPREAD) >> shift;
        (line << LINE_BITS | number & ((1 << LINE_BITS) - 1)) as usize
    }
}

/// Slots of a cache line, as a power of two.
const LINE_BITS: u32 = 3;
/// Slots of the first table, as a power of two.
const FIRST_BITS: u32 = 10;

/// All buckets; row 0 is nobody's.
#[derive(Debug)]
pub(super) struct Sites {
    rows: Vec<Row>,
    /// A power of two of them, at least a quarter of them empty.
    slots: Vec<u64>,
    /// 64 minus the power of two that are its lines.
    shift: u32,
    used: usize,
    by_bucket: FxHashMap<SiteBucket, u32>,
}

impl Default for Sites {
    fn default() -> Self {
        Self {
            rows: vec![Row::default()],
            slots: vec![0; 1 << FIRST_BITS],
            shift: u64::BITS - (FIRST_BITS - LINE_BITS),
            used: 0,
            by_bucket: FxHashMap::default(),
        }
    }
}

impl Sites {
    /// The site of a bucket of the program as used by a thread, made on first use; `None` when the bucket cannot be
    /// described.
    #[inline]
    pub(super) fn site(
        &mut self,
        bucket: u32,
        thread: u32,
        describe: &mut impl FnMut(u32) -> Option<Bucket>,
    ) -> Option<Site> {
        let key = Key::new(bucket, thread);
        let slot = self.slots.get(key.place(self.shift)).copied().unwrap_or(0);
        match key.site_in(slot) {
            Some(site) => Some(site),
            None => self.find_or_make(key, thread, || describe(bucket).filter(|_| bucket != 0)),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_or_make(
        &mut self,
        key: Key,
        thread: u32,
        describe: impl FnOnce() -> Option<Bucket>,
    ) -> Option<Site> {
        self.find(key).ok().or_else(|| self.make(key, thread, &describe()?))
    }

    /// The site of a key, or the place for it.
    fn find(&self, key: Key) -> Result<Site, usize> {
        let mut place = key.place(self.shift);
        loop {
            // The table is never full, so there is an end; the place is always one in the table.
            let slot = self.slots.get(place).copied().unwrap_or(0);
            if let Some(site) = key.site_in(slot) {
                return Ok(site);
            }
            if slot == 0 {
                return Err(place);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    fn make(&mut self, key: Key, thread: u32, record: &Bucket) -> Option<Site> {
        let Bucket { size, node, kind, .. } = *record;
        let thread = if thread < NO_THREAD { thread as u16 } else { SiteBucket::NO_THREAD };
        let row = self.row(SiteBucket { node, size, thread })?;
        let is_realloc = CallKind::from_number(kind.into()) == CallKind::Realloc;
        let site = Site(if is_realloc { row | Site::REALLOC } else { row });
        if 4 * (self.used + 1) > 3 * self.slots.len() {
            self.grow();
        }
        self.used += 1;
        self.put(key, key.0 | u64::from(site.0));
        Some(site)
    }

    fn put(&mut self, key: Key, slot: u64) {
        if let Err(place) = self.find(key) {
            self.slots[place] = slot;
        }
    }

    fn grow(&mut self) {
        let larger = vec![0; 2 * self.slots.len()];
        self.shift -= 1;
        for slot in std::mem::replace(&mut self.slots, larger) {
            if slot != 0 {
                self.put(Key::of_slot(slot), slot);
            }
        }
    }

    /// The row of a bucket of the recording. Several of the program's may share one: they differ in what a recording does
    /// not tell apart.
    fn row(&mut self, bucket: SiteBucket) -> Option<u32> {
        if let Some(row) = self.by_bucket.get(&bucket) {
            return Some(*row);
        }
        let row = u32::try_from(self.rows.len()).ok().filter(|row| *row < Site::REALLOC)?;
        let SiteBucket { node, size, thread } = bucket;
        self.rows.push(Row { size, node, thread, ..Row::default() });
        self.by_bucket.insert(bucket, row);
        Some(row)
    }

    /// Counts an allocation; the size of the block, and whether frees at this site came before their allocations.
    #[inline]
    pub(super) fn alloc(&mut self, site: Site) -> (u64, bool) {
        let row = &mut self.rows[site.bucket() as usize];
        row.count.allocs += 1;
        (row.size, row.is_indebted)
    }

    /// Counts a free; the size of the block. `None` when there is no block.
    #[inline]
    pub(super) fn free(&mut self, site: Site) -> Option<u64> {
        let row = &mut self.rows[site.bucket() as usize];
        if row.count.frees >= row.count.allocs {
            return None;
        }
        row.count.frees += 1;
        Some(row.size)
    }

    pub(super) fn set_indebted(&mut self, bucket: u32, is_indebted: bool) {
        self.rows[bucket as usize].is_indebted = is_indebted;
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The buckets from `first` on.
    pub(super) fn from(&self, first: usize) -> impl ExactSizeIterator<Item = SiteBucket> + '_ {
        self.rows[first.min(self.rows.len())..].iter().map(Row::bucket)
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::new(self.rows.len());
        for (bucket, row) in self.rows.iter().enumerate() {
            *counts.row(bucket as u32) = row.count;
        }
        counts
    }
}
