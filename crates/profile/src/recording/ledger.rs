//! The recorder's book: pairs each free with its allocation, keeps the totals, and writes entries.

mod sites;

use heapwise_format::event::Event;
use heapwise_format::recording::{
    AllocKind, Entry, EntryState, FrameHeader, FrameKind, MOMENT_MS, Moment, MomentState, SiteBucket,
};
use rustc_hash::FxHashMap;

use super::live_index::{Block, LiveIndex};
use sites::Sites;

/// A frame before packing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawFrame {
    /// Its header, to be sealed by the writer.
    pub header: FrameHeader,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Books of one recording. Feed it merged events; take frames.
#[derive(Debug, Default)]
pub struct Ledger {
    live: LiveIndex,
    sites: Sites,
    written_buckets: usize,
    page: Page,
    /// Pages that are full, oldest first.
    full: Vec<RawFrame>,
    freed: FxHashMap<u32, bool>,
    timeline: Vec<Moment>,
    moment: Moment,
    moment_touched: bool,
    tick_ms: u64,
    live_bytes: u64,
    live_blocks: u64,
    peak_bytes: u64,
    peak_ms: u64,
    events: u64,
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

/// A page is full at this size: small enough to be unpacked at once, large enough to pack well.
const PAGE_BYTES: usize = 1 << 20;

/// The events frame being written.
#[derive(Debug, Default)]
struct Page {
    state: EntryState,
    column: Vec<u8>,
    ages: Vec<u8>,
    entries: u32,
    first_ms: u64,
    first_thread: u32,
    thread: u32,
    /// Block whose allocation is the entry written last, on the thread that wrote it.
    last_alloc: Option<u64>,
    /// The thread's event before was a free, of a block that came from `realloc` or not: what a
    /// `realloc` by this thread goes on from.
    freed: Option<bool>,
}

impl Page {
    #[inline]
    fn put(&mut self, entry: Entry) {
        self.state.encode(entry, &mut self.column, &mut self.ages);
        self.entries += 1;
    }

    fn bytes(&self) -> usize {
        self.column.len() + self.ages.len()
    }
}

impl Ledger {
    /// Books one event of `thread` at millisecond `tick_ms`; ticks never run backwards.
    #[inline]
    pub fn book(&mut self, thread: u32, tick_ms: u64, event: &Event) {
        if tick_ms != self.tick_ms {
            self.pass(tick_ms);
        }
        if thread != self.page.thread {
            self.switch(thread);
        }
        self.events += 1;
        match *event {
            Event::Alloc { address, size, node, realloc, .. } => {
                self.alloc(address, SiteBucket { node, size }, realloc);
            }
            Event::Free { address, .. } => self.free(address),
            Event::Gap(events) => {
                self.totals.gap_events += events;
                self.page.put(Entry::Gap(events));
            }
            Event::Tick(_) | Event::Kept { .. } => {}
        }
        if self.page.bytes() >= PAGE_BYTES {
            let page = self.take_page();
            self.full.push(page);
        }
    }

    #[inline]
    fn alloc(&mut self, address: u64, site: SiteBucket, realloc: bool) {
        let bucket = self.sites.alloc(site);
        let block = Block { bucket, born_ms: self.tick_ms as u32, from_realloc: realloc };
        if let Some(missed) = self.live.insert(address, block) {
            self.totals.missed_frees += 1;
            let age_ms = self.release(&missed);
            self.page.put(Entry::MissedFree { bucket: missed.bucket, age_ms });
        }
        let kind = match (realloc, self.page.freed) {
            (false, _) | (true, None) => AllocKind::Fresh,
            (true, Some(false)) => AllocKind::FirstRealloc,
            (true, Some(true)) => AllocKind::NextRealloc,
        };
        self.totals.allocs += 1;
        self.totals.alloc_bytes += site.size;
        self.live_bytes += site.size;
        self.live_blocks += 1;
        self.moment.allocs += 1;
        self.moment.alloc_bytes += site.size;
        self.moment_touched = true;
        self.moment.max_live_bytes = self.moment.max_live_bytes.max(self.live_bytes);
        if self.live_bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_ms) = (self.live_bytes, self.tick_ms);
        }
        self.page.put(Entry::Alloc { bucket, kind });
        self.page.last_alloc = Some(address);
        self.page.freed = None;
    }

    #[inline]
    fn free(&mut self, address: u64) {
        let Some(block) = self.live.remove(address) else {
            self.totals.unknown_frees += 1;
            self.page.put(Entry::UnknownFree(1));
            self.page.last_alloc = None;
            self.page.freed = None;
            return;
        };
        let age_ms = self.release(&block);
        let temporary = self.page.last_alloc == Some(address) && age_ms == 0;
        self.page.put(Entry::Free { bucket: block.bucket, age_ms, temporary });
        self.page.last_alloc = None;
        self.page.freed = Some(block.from_realloc);
    }

    /// Takes a block off the books; returns its age.
    #[inline]
    fn release(&mut self, block: &Block) -> u64 {
        let size = self.sites.free(block.bucket);
        self.totals.frees += 1;
        self.live_bytes -= size.min(self.live_bytes);
        self.live_blocks -= 1;
        self.moment.frees += 1;
        self.moment_touched = true;
        u64::from((self.tick_ms as u32).wrapping_sub(block.born_ms))
    }

    fn switch(&mut self, thread: u32) {
        // A thread may be interrupted between the two events of a `realloc`.
        match self.page.freed.take() {
            Some(from_realloc) => self.freed.insert(self.page.thread, from_realloc),
            None => self.freed.remove(&self.page.thread),
        };
        self.page.freed = self.freed.remove(&thread);
        self.page.thread = thread;
        self.page.last_alloc = None;
        if self.page.entries == 0 {
            self.page.first_thread = thread;
        } else {
            self.page.put(Entry::Thread(thread));
        }
    }

    /// Time passes up to `tick_ms`, with or without events.
    pub fn pass(&mut self, tick_ms: u64) {
        let passed = tick_ms.saturating_sub(self.tick_ms);
        if passed == 0 {
            return;
        }
        if self.page.entries == 0 {
            self.page.first_ms = tick_ms;
        } else {
            self.page.put(Entry::Tick(passed));
        }
        self.page.last_alloc = None;
        self.tick_ms = tick_ms;
        let start_ms = tick_ms - tick_ms % MOMENT_MS;
        if start_ms != self.moment.start_ms {
            self.close_moment();
            self.moment.start_ms = start_ms;
        }
    }

    fn close_moment(&mut self) {
        if std::mem::take(&mut self.moment_touched) {
            self.moment.live_bytes = self.live_bytes;
            self.moment.live_blocks = self.live_blocks;
            self.timeline.push(self.moment);
        }
        self.moment = Moment {
            start_ms: self.moment.start_ms,
            max_live_bytes: self.live_bytes,
            live_bytes: self.live_bytes,
            live_blocks: self.live_blocks,
            ..Moment::default()
        };
    }

    /// Notes the resident bytes of the process at the current time.
    pub fn resident(&mut self, bytes: u64) {
        self.moment.rss_bytes = bytes;
        self.moment_touched = true;
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
        let mut frames = Vec::new();
        frames.extend(self.new_buckets());
        frames.append(&mut self.full);
        if self.page.entries > 0 {
            frames.push(self.take_page());
        }
        self.close_moment();
        if !self.timeline.is_empty() {
            frames.push(timeline_frame(&std::mem::take(&mut self.timeline)));
        }
        frames
    }

    fn new_buckets(&mut self) -> Option<RawFrame> {
        let first = self.written_buckets.max(1);
        self.written_buckets = self.sites.len();
        buckets_frame(first, self.sites.from(first))
    }

    fn take_page(&mut self) -> RawFrame {
        let page = &mut self.page;
        let mut payload = Vec::with_capacity(4 + page.bytes());
        payload.extend_from_slice(&(page.column.len() as u32).to_le_bytes());
        payload.extend_from_slice(&page.column);
        payload.extend_from_slice(&page.ages);
        let header = FrameHeader {
            first: page.first_ms,
            last: self.tick_ms,
            count: page.entries,
            thread: page.first_thread,
            ..FrameHeader::new(FrameKind::Events)
        };
        page.state = EntryState::default();
        page.column.clear();
        page.ages.clear();
        page.entries = 0;
        page.first_ms = self.tick_ms;
        page.first_thread = page.thread;
        page.last_alloc = None;
        RawFrame { header, payload }
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

fn timeline_frame(rows: &[Moment]) -> RawFrame {
    let (mut state, mut payload) = (MomentState::default(), Vec::new());
    rows.iter().for_each(|row| state.encode(row, &mut payload));
    let header = FrameHeader {
        first: rows.first().map_or(0, |row| row.start_ms),
        last: rows.last().map_or(0, |row| row.start_ms),
        count: rows.len() as u32,
        ..FrameHeader::new(FrameKind::Timeline)
    };
    RawFrame { header, payload }
}

/// What the books say now.
impl Ledger {
    /// Live bytes.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
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

    /// Events booked.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Current millisecond.
    #[must_use]
    pub fn tick_ms(&self) -> u64 {
        self.tick_ms
    }
}
