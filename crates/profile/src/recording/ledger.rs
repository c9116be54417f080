//! The recorder's book: pairs each free with its allocation, keeps the totals, and writes entries.
//!
//! Booking goes in two strides, because looking up a block misses the processor's caches, and what comes next depends
//! on what was found: a batch of events is first touched, one miss beside the other, and then looked up and written
//! down. An allocation waits for the next event before it joins the batch: if that frees it, the block was
//! temporary and never enters the index.

mod page;
mod sites;
mod slices;

use heapwise_format::event::Event;
use heapwise_format::recording::{Age, AllocKind, Entry, FrameHeader, FrameKind, SiteBucket};
use rustc_hash::FxHashMap;

use super::live_index::{Block, LiveIndex};
use page::Page;
use sites::Sites;
use slices::Slices;

/// A frame before packing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawFrame {
    /// Its header, to be sealed by the writer.
    pub header: FrameHeader,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Books of one recording. Feed it merged events; take frames. What was booked shows in its numbers after
/// [`Ledger::settle`] or [`Ledger::take_frames`].
#[derive(Debug, Default)]
pub struct Ledger {
    live: LiveIndex,
    sites: Sites,
    written_buckets: usize,
    newest: Option<Newest>,
    batch: Vec<Booked>,
    page: Page,
    /// Pages that are full, oldest first.
    full: Vec<RawFrame>,
    /// The thread's event before was a free, of a block that came from `realloc` or not: what a
    /// `realloc` by this thread goes on from.
    freed: Option<bool>,
    /// The same of the other threads.
    freed_by_others: FxHashMap<u32, bool>,
    slices: Slices,
    tick_ms: u64,
    peak_bytes: u64,
    peak_ms: u64,
    totals: Totals,
}

/// Sums over the whole recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Blocks allocated.
    pub allocs: u64,
    /// Bytes allocated.
    pub alloc_bytes: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Frees of blocks never seen.
    pub unknown_frees: u64,
    /// Frees that were missed and noticed later.
    pub missed_frees: u64,
    /// Events the program could not record.
    pub gap_events: u64,
}

/// The allocation that came last, not in the index yet.
#[derive(Debug, Clone, Copy)]
struct Newest {
    address: u64,
    bucket: u32,
    by_realloc: bool,
}

/// An event of the batch.
#[derive(Debug, Clone, Copy)]
enum Booked {
    Alloc(Newest),
    Temporary(Newest),
    Free(u64),
}

/// Events touched before they are written down: several times what a processor keeps in flight.
const BATCH: usize = 64;

/// What a batch adds to the numbers.
#[derive(Debug, Default)]
struct Sums {
    allocs: u64,
    alloc_bytes: u64,
    frees: u64,
    live_bytes: u64,
    max_live_bytes: u64,
}

/// Taking in.
impl Ledger {
    /// Books one event of `thread` at millisecond `tick_ms`; ticks never run backwards.
    #[inline]
    pub fn book(&mut self, thread: u32, tick_ms: u64, event: &Event) {
        if tick_ms != self.tick_ms {
            self.pass(tick_ms);
        }
        if thread != self.page.thread() {
            self.switch(thread);
        }
        match *event {
            Event::Alloc { address, size, node, realloc, .. } => {
                self.enter_newest();
                let bucket = self.sites.bucket(node, size);
                self.newest = Some(Newest { address, bucket, by_realloc: realloc });
            }
            Event::Free { address, .. } => self.free(address),
            Event::Gap(events) => {
                self.settle();
                self.totals.gap_events += events;
                self.page.put(Entry::Gap(events));
            }
            Event::Tick(_) | Event::Kept { .. } => {}
        }
        if self.batch.len() >= BATCH {
            self.write_down();
        }
    }

    #[inline]
    fn free(&mut self, address: u64) {
        match self.newest.take() {
            Some(newest) if newest.address == address => self.batch.push(Booked::Temporary(newest)),
            other => {
                self.batch.extend(other.map(Booked::Alloc));
                self.batch.push(Booked::Free(address));
            }
        }
    }

    /// The allocation that came last is not temporary.
    #[inline]
    fn enter_newest(&mut self) {
        if let Some(newest) = self.newest.take() {
            self.batch.push(Booked::Alloc(newest));
        }
    }

    fn switch(&mut self, thread: u32) {
        self.settle();
        // A thread may be interrupted between the two events of a `realloc`.
        if let Some(from_realloc) = self.freed.take() {
            self.freed_by_others.insert(self.page.thread(), from_realloc);
        }
        self.freed = self.freed_by_others.remove(&thread);
        self.page.switch(thread);
        self.sites.switch(thread);
    }

    /// Time passes up to `tick_ms`, with or without events.
    pub fn pass(&mut self, tick_ms: u64) {
        let passed = tick_ms.saturating_sub(self.tick_ms);
        if passed == 0 {
            return;
        }
        self.settle();
        self.page.pass(passed, tick_ms);
        self.tick_ms = tick_ms;
        self.slices.pass(tick_ms);
    }

    /// Notes the resident bytes of the process at the current time.
    pub fn resident(&mut self, bytes: u64) {
        self.settle();
        self.slices.now.rss_bytes = bytes;
        self.slices.touch();
    }
}

/// Writing down.
impl Ledger {
    /// Everything booked is in the numbers.
    pub fn settle(&mut self) {
        self.enter_newest();
        self.write_down();
    }

    /// Writes the batch down. All of it is of one thread and millisecond.
    fn write_down(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return;
        }
        self.touch(&batch);
        let now = &self.slices.now;
        let mut sums =
            Sums { live_bytes: now.live_bytes, max_live_bytes: now.max_live_bytes, ..Sums::default() };
        for booked in batch.drain(..) {
            match booked {
                Booked::Alloc(newest) => self.alloc(newest, &mut sums),
                Booked::Temporary(newest) => self.temporary(newest, &mut sums),
                Booked::Free(address) => self.write_free(address, &mut sums),
            }
        }
        self.batch = batch;
        self.add(&sums);
        if self.page.is_full() {
            self.full.push(self.page.take(self.tick_ms));
        }
    }

    /// Brings everything that a batch will look up into the cache.
    fn touch(&self, batch: &[Booked]) {
        let mut sum = 0;
        for booked in batch {
            sum ^= match booked {
                Booked::Alloc(newest) => u64::from(self.live.touch(newest.address)),
                Booked::Free(address) => self.sites.touch(self.live.touch(*address)),
                Booked::Temporary(_) => 0,
            };
        }
        std::hint::black_box(sum);
    }

    fn add(&mut self, sums: &Sums) {
        let now = &mut self.slices.now;
        now.allocs += sums.allocs;
        now.alloc_bytes += sums.alloc_bytes;
        now.frees += sums.frees;
        now.live_bytes = sums.live_bytes;
        now.live_blocks = (now.live_blocks + sums.allocs).saturating_sub(sums.frees);
        now.max_live_bytes = sums.max_live_bytes;
        self.slices.touch();
        self.totals.allocs += sums.allocs;
        self.totals.alloc_bytes += sums.alloc_bytes;
        self.totals.frees += sums.frees;
        if sums.max_live_bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_ms) = (sums.max_live_bytes, self.tick_ms);
        }
    }

    #[inline]
    fn alloc(&mut self, newest: Newest, sums: &mut Sums) {
        let Newest { address, bucket, by_realloc } = newest;
        let block = Block { bucket, born_ms: self.tick_ms as u32, from_realloc: by_realloc };
        if let Some(missed) = self.live.insert(address, block) {
            self.missed(&missed, sums);
        }
        sums.came(self.sites.alloc(bucket));
        self.page.put(Entry::Alloc { bucket, kind: self.kind(by_realloc) });
        self.freed = None;
    }

    #[inline]
    fn temporary(&mut self, newest: Newest, sums: &mut Sums) {
        let Newest { address, bucket, by_realloc } = newest;
        // Only where events are missing can a block be left at the address of a temporary one.
        if self.totals.gap_events > 0
            && let Some(missed) = self.live.remove(address)
        {
            self.missed(&missed, sums);
        }
        let size = self.sites.pass(bucket);
        sums.came(size);
        sums.went(size);
        self.page.put(Entry::Temporary { bucket, kind: self.kind(by_realloc) });
        self.freed = Some(by_realloc);
    }

    #[inline]
    fn write_free(&mut self, address: u64, sums: &mut Sums) {
        let Some(block) = self.live.remove(address) else {
            self.totals.unknown_frees += 1;
            self.page.put(Entry::UnknownFree(1));
            self.freed = None;
            return;
        };
        sums.went(self.sites.free(block.bucket));
        self.page.put(Entry::Free { bucket: block.bucket, age: self.age(&block) });
        self.freed = Some(block.from_realloc);
    }

    #[cold]
    fn missed(&mut self, block: &Block, sums: &mut Sums) {
        self.totals.missed_frees += 1;
        sums.went(self.sites.free(block.bucket));
        self.page.put(Entry::MissedFree { bucket: block.bucket, age: self.age(block) });
    }

    #[inline]
    fn kind(&self, by_realloc: bool) -> AllocKind {
        match (by_realloc, self.freed) {
            (false, _) | (true, None) => AllocKind::Fresh,
            (true, Some(false)) => AllocKind::FirstRealloc,
            (true, Some(true)) => AllocKind::NextRealloc,
        }
    }

    #[inline]
    fn age(&self, block: &Block) -> Age {
        // Births are kept in 32 bits, 49 days of milliseconds; ages are right beyond that as long as they are shorter.
        let age_ms = (self.tick_ms as u32).wrapping_sub(block.born_ms);
        Age::between(self.tick_ms.saturating_sub(u64::from(age_ms)), self.tick_ms)
    }
}

impl Sums {
    #[inline]
    fn came(&mut self, size: u64) {
        self.allocs += 1;
        self.alloc_bytes += size;
        self.live_bytes += size;
        self.max_live_bytes = self.max_live_bytes.max(self.live_bytes);
    }

    #[inline]
    fn went(&mut self, size: u64) {
        self.frees += 1;
        self.live_bytes -= size;
    }
}

/// Frames.
impl Ledger {
    /// Whether frames should be taken: a page is full.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.full.is_empty()
    }

    /// Takes what was booked since the last call, in the order it must be written: new buckets, events,
    /// timeline.
    pub fn take_frames(&mut self) -> Vec<RawFrame> {
        self.settle();
        let mut frames = Vec::new();
        frames.extend(self.new_buckets());
        frames.append(&mut self.full);
        if !self.page.is_empty() {
            frames.push(self.page.take(self.tick_ms));
        }
        frames.extend(self.slices.take());
        frames
    }

    fn new_buckets(&mut self) -> Option<RawFrame> {
        let first = self.written_buckets.max(1);
        self.written_buckets = self.sites.len();
        buckets_frame(first, self.sites.from(first))
    }

    /// Everything so far, summed up: a frame from which a reader can start. To be taken when no
    /// events are pending.
    #[must_use]
    pub fn checkpoint(&self) -> RawFrame {
        let (payload, count) = self.sites.counts().encode();
        let header = FrameHeader { first: self.tick_ms, count, ..FrameHeader::new(FrameKind::Checkpoint) };
        RawFrame { header, payload }
    }

    /// All buckets, for the start of another file.
    #[must_use]
    pub fn all_buckets(&self) -> Option<RawFrame> {
        buckets_frame(1, self.sites.from(1))
    }
}

/// The frame of some buckets; none when there are none.
fn buckets_frame(first: usize, sites: impl ExactSizeIterator<Item = SiteBucket>) -> Option<RawFrame> {
    let (mut payload, count) = (Vec::new(), sites.len() as u32);
    sites.for_each(|site| site.encode(&mut payload));
    let header = FrameHeader { first: first as u64, count, ..FrameHeader::new(FrameKind::Buckets) };
    (count > 0).then_some(RawFrame { header, payload })
}

/// What the books say now.
impl Ledger {
    /// Live bytes.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.slices.now.live_bytes
    }

    /// Highest live bytes so far, and when.
    #[must_use]
    pub fn peak(&self) -> (u64, u64) {
        (self.peak_bytes, self.peak_ms)
    }

    /// Sums over the whole recording.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Current millisecond.
    #[must_use]
    pub fn tick_ms(&self) -> u64 {
        self.tick_ms
    }
}
