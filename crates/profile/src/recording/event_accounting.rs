//! The recorder's account: counts events per site, keeps totals and timeline, and writes entries.
//!
//! An allocation is counted at once, but its entry waits for the next event: if that frees the
//! block, it was temporary, and one entry stores both. A free that comes before its allocation
//! (threads are in order only by the millisecond) is refused if it may wait, and else becomes
//! pending until the allocation of the same site and size comes: no reader ever sees more blocks or
//! bytes freed than allocated.

mod events_frame;
mod marked_rows;
mod pending_frees;
mod run;
mod sites;
mod timeline_rows;

use heapwise_format::event::{Block, Event, Freeing};
use heapwise_format::recording::{AllocKind, Entry, FrameHeader, FrameKind, MOST_MARKS, Site, SiteBlock};
use heapwise_format::segment::Tally;
use rustc_hash::FxHashMap;

use events_frame::EventsFrame;
use marked_rows::MarkedRows;
use pending_frees::{PendingFree, PendingFrees};
use sites::Sites;
use timeline_rows::TimelineRows;

/// A frame before packing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawFrame {
    /// Its header, to be sealed by the writer.
    pub header: FrameHeader,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// The account of one recording. Feed it merged events; take frames. Events are in its numbers
/// after [`EventAccounting::flush_sums`] or [`EventAccounting::take_frames`].
#[derive(Debug, Default)]
pub struct EventAccounting {
    sites: Sites,
    written_sites: usize,
    newest: Option<Newest>,
    pending_frees: PendingFrees,
    frame: EventsFrame,
    /// Frames that are full, oldest first.
    full: Vec<RawFrame>,
    /// The last event of the current thread was a free, of a block that came from `realloc` or not:
    /// the block that a `realloc` by this thread resizes.
    freed: Option<bool>,
    /// The same of the other threads.
    freed_by_others: FxHashMap<u32, bool>,
    sums: Sums,
    rows: TimelineRows,
    marked_rows: MarkedRows,
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
    /// Frees of blocks whose allocation was not recorded.
    pub unknown_frees: u64,
    /// Frees that were missed and noticed later.
    pub missed_frees: u64,
    /// Events the program could not record.
    pub gap_events: u64,
}

/// The last allocation: counted, but not written yet.
#[derive(Debug, Clone, Copy)]
struct Newest {
    block: SiteBlock,
    kind: AllocKind,
}

/// Events since [`EventAccounting::flush_sums`], all of one millisecond. Bytes wrap around rather
/// than panic on sizes that no program can have.
///
/// Numbers that change together are neighbors: the sums are stored and loaded again with every
/// event, in pairs, and processors forward a store only to a load that is not larger.
#[derive(Debug, Default)]
struct Sums {
    allocs: u64,
    alloc_bytes: u64,
    frees: u64,
    freed_bytes: u64,
    /// Highest excess of bytes allocated over bytes freed.
    most_bytes: i64,
}

/// A pending free expires after this time: the allocation of its block was lost.
const PENDING_MS: u64 = 1000;

/// Taking in.
impl EventAccounting {
    /// Adds one event of `thread` at millisecond `tick_ms`; ticks never run backwards. `describe`
    /// returns the record of a tally that was not seen before.
    ///
    /// `false` when nothing was added, never if it `must`: the event frees a block that another
    /// thread has yet to allocate.
    #[inline]
    pub fn add(
        &mut self,
        thread: u32,
        tick_ms: u64,
        event: &Event,
        must: bool,
        describe: &mut impl FnMut(u32) -> Option<Tally>,
    ) -> bool {
        match *event {
            Event::Mark(marks) => self.mark(tick_ms, marks),
            Event::Tick(_) => {}
            Event::Alloc(Block { tally, size, by_realloc }) => {
                self.turn_to(thread, tick_ms);
                match self.sites.number(tally, describe) {
                    Some(site) => self.alloc(SiteBlock { site, size }, by_realloc),
                    None => self.gap(1),
                }
            }
            Event::Free { block: Block { tally, size, by_realloc }, age_ms, how } => {
                // The allocations of blocks that are older than the recording are not in it.
                let site = if age_ms <= tick_ms { self.sites.number(tally, describe) } else { None };
                let Some(site) = site else {
                    self.turn_to(thread, tick_ms);
                    self.unknown_free();
                    return true;
                };
                let block = SiteBlock { site, size };
                let is_counted = self.sites.free(block);
                // The allocation of a thread's own block came before; waiting does not bring it
                // back.
                if !is_counted && !must && !self.sites.is_of_thread(site, thread) {
                    return false;
                }
                self.turn_to(thread, tick_ms);
                match is_counted {
                    true => self.free(block, age_ms, how, by_realloc),
                    false => self.add_pending(block, age_ms, how, by_realloc),
                }
            }
            Event::Unknown => {
                self.turn_to(thread, tick_ms);
                self.unknown_free();
            }
            Event::Gap(events) => {
                self.turn_to(thread, tick_ms);
                self.gap(events);
            }
        }
        true
    }

    #[inline]
    fn turn_to(&mut self, thread: u32, tick_ms: u64) {
        if tick_ms != self.tick_ms {
            self.pass(tick_ms);
        }
        if thread != self.frame.thread() {
            self.switch(thread);
        }
    }

    #[cold]
    fn switch(&mut self, thread: u32) {
        self.write_newest();
        // A thread may be interrupted between the two events of a `realloc`.
        if let Some(from_realloc) = self.freed.take() {
            self.freed_by_others.insert(self.frame.thread(), from_realloc);
        }
        self.freed = self.freed_by_others.remove(&thread);
        self.frame.set_thread(thread);
    }

    /// Time passes up to `tick_ms`, with or without events.
    #[cold]
    pub fn pass(&mut self, tick_ms: u64) {
        let passed = tick_ms.saturating_sub(self.tick_ms);
        if passed == 0 {
            return;
        }
        self.flush_sums();
        self.frame.pass(passed, tick_ms);
        self.tick_ms = tick_ms;
        self.rows.pass(tick_ms);
        if let Some(until_ms) = tick_ms.checked_sub(PENDING_MS)
            && self.pending_frees.is_time(tick_ms)
        {
            self.expire_pending(until_ms);
        }
    }

    /// The events that follow happened after so many marks.
    #[cold]
    fn mark(&mut self, tick_ms: u64, marks: u64) {
        self.pass(tick_ms);
        let marks = marks.min(MOST_MARKS);
        if marks > self.frame.marks() {
            self.write_newest();
            self.marked_rows.add(self.tick_ms);
            self.frame.set_marks(marks);
        }
    }

    /// No more events will come.
    pub fn end(&mut self) {
        self.expire_pending(u64::MAX);
        self.flush_sums();
    }

    /// Sets the resident bytes of the process at the current time.
    pub fn set_resident(&mut self, bytes: u64) {
        self.flush_sums();
        self.rows.now.rss_bytes = bytes;
        self.rows.touch();
    }

    /// Adds all events so far to totals and timeline.
    pub(crate) fn flush_sums(&mut self) {
        self.write_newest();
        let sums = std::mem::take(&mut self.sums);
        if sums.allocs | sums.frees == 0 {
            return;
        }
        let now = &mut self.rows.now;
        let highest = now.live_bytes.wrapping_add_signed(sums.most_bytes);
        now.allocs += sums.allocs;
        now.alloc_bytes = now.alloc_bytes.wrapping_add(sums.alloc_bytes);
        now.frees += sums.frees;
        now.live_bytes = now.live_bytes.wrapping_add(sums.alloc_bytes).wrapping_sub(sums.freed_bytes);
        now.live_blocks = (now.live_blocks + sums.allocs).saturating_sub(sums.frees);
        now.max_live_bytes = now.max_live_bytes.max(highest);
        self.rows.touch();
        self.totals.allocs += sums.allocs;
        self.totals.alloc_bytes = self.totals.alloc_bytes.wrapping_add(sums.alloc_bytes);
        self.totals.frees += sums.frees;
        if highest > self.peak_bytes {
            (self.peak_bytes, self.peak_ms) = (highest, self.tick_ms);
        }
    }
}

/// Writing entries.
impl EventAccounting {
    #[inline(always)]
    fn put(&mut self, entry: Entry) {
        self.frame.put(entry);
        if self.frame.is_full() {
            self.end_frame();
        }
    }

    #[cold]
    #[inline(never)]
    fn end_frame(&mut self) {
        self.full.push(self.frame.take(self.tick_ms));
    }

    /// The last allocation is not temporary.
    #[inline(always)]
    fn write_newest(&mut self) {
        if let Some(Newest { block, kind }) = self.newest.take() {
            self.put(Entry::Alloc { block, kind });
        }
    }

    #[inline]
    fn alloc(&mut self, block: SiteBlock, by_realloc: bool) {
        self.write_newest();
        self.sites.alloc(block);
        self.sums.alloc(block.size);
        let freed = self.freed.take();
        let kind = if by_realloc { realloc_of(freed) } else { AllocKind::Fresh };
        self.newest = Some(Newest { block, kind });
        if !self.pending_frees.is_empty() {
            self.free_pending(block);
        }
    }

    #[inline]
    fn free(&mut self, block: SiteBlock, age_ms: u64, how: Freeing, by_realloc: bool) {
        self.sums.free(block.size);
        if how == Freeing::AtOnce
            && let Some(newest) = self.newest.take_if(|newest| newest.block == block)
        {
            self.put(Entry::Temporary { block, kind: newest.kind });
            self.freed = Some(by_realloc);
            return;
        }
        self.write_newest();
        let age = self.marked_rows.age(age_ms, self.tick_ms);
        if how == Freeing::Missed {
            // Seen by the allocation that follows. That may be a `realloc`: keep the block it
            // resizes.
            self.totals.missed_frees += 1;
            self.put(Entry::MissedFree { block, age });
        } else {
            self.put(Entry::Free { block, age });
            self.freed = Some(by_realloc);
        }
    }

    /// Adds the free of a block whose allocation comes later.
    #[cold]
    fn add_pending(&mut self, block: SiteBlock, age_ms: u64, how: Freeing, by_realloc: bool) {
        self.write_newest();
        let (thread, since_ms, is_missed) = (self.frame.thread(), self.tick_ms, how == Freeing::Missed);
        let age = self.marked_rows.age(age_ms, since_ms);
        let free = PendingFree { size: block.size, thread, since_ms, age, is_missed };
        self.pending_frees.add(block.site, free);
        if !is_missed {
            self.freed = Some(by_realloc);
        }
    }

    /// Writes the pending free of a block that was just allocated, if there is one.
    #[cold]
    fn free_pending(&mut self, block: SiteBlock) {
        let Some(free) = self.pending_frees.take(block) else { return };
        self.write_newest();
        let is_counted = self.sites.free(block);
        debug_assert!(is_counted, "the block was just allocated");
        self.sums.free(block.size);
        let PendingFree { age, is_missed, .. } = free;
        self.totals.missed_frees += u64::from(is_missed);
        let entry = if is_missed { Entry::MissedFree { block, age } } else { Entry::Free { block, age } };
        self.put_of(free.thread, entry);
    }

    /// The blocks of frees that became pending until `until_ms` never came.
    #[cold]
    fn expire_pending(&mut self, until_ms: u64) {
        self.write_newest();
        for free in self.pending_frees.take_expired(until_ms) {
            self.totals.unknown_frees += 1;
            self.put_of(free.thread, Entry::UnknownFree(1));
        }
    }

    /// Writes an entry of `thread` in between.
    #[cold]
    fn put_of(&mut self, thread: u32, entry: Entry) {
        let current = self.frame.thread();
        self.frame.set_thread(thread);
        self.put(entry);
        self.frame.set_thread(current);
    }

    #[cold]
    fn unknown_free(&mut self) {
        self.write_newest();
        self.totals.unknown_frees += 1;
        self.put(Entry::UnknownFree(1));
        self.freed = None;
    }

    #[cold]
    fn gap(&mut self, events: u64) {
        self.write_newest();
        self.totals.gap_events = self.totals.gap_events.saturating_add(events);
        self.put(Entry::Gap(events));
    }
}

/// What a `realloc` is after a free of this kind; after none, it had no block to begin with.
#[cold]
fn realloc_of(freed: Option<bool>) -> AllocKind {
    match freed {
        None => AllocKind::Fresh,
        Some(false) => AllocKind::FirstRealloc,
        Some(true) => AllocKind::NextRealloc,
    }
}

impl Sums {
    #[inline]
    fn alloc(&mut self, size: u64) {
        self.allocs += 1;
        self.alloc_bytes = self.alloc_bytes.wrapping_add(size);
        self.most_bytes = self.most_bytes.max(self.alloc_bytes.wrapping_sub(self.freed_bytes) as i64);
    }

    #[inline]
    fn free(&mut self, size: u64) {
        self.frees += 1;
        self.freed_bytes = self.freed_bytes.wrapping_add(size);
    }
}

/// Frames.
impl EventAccounting {
    /// Whether frames should be taken: one is full.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.full.is_empty()
    }

    /// Takes the events since the last call, in the order to be written: new sites, events,
    /// timeline.
    pub fn take_frames(&mut self) -> Vec<RawFrame> {
        self.flush_sums();
        let mut frames = Vec::new();
        frames.extend(self.new_sites());
        frames.append(&mut self.full);
        if !self.frame.is_empty() {
            frames.push(self.frame.take(self.tick_ms));
        }
        frames.extend(self.rows.take());
        frames
    }

    fn new_sites(&mut self) -> Option<RawFrame> {
        let first = self.written_sites.max(1);
        self.written_sites = self.sites.len();
        sites_frame(first, self.sites.from(first))
    }

    /// All events so far, summed up: a frame from which a reader can start. To be taken when no
    /// events are pending.
    #[must_use]
    pub fn checkpoint(&self) -> RawFrame {
        let (payload, count) = self.sites.counts().encode();
        let header = FrameHeader { first: self.tick_ms, count, ..FrameHeader::new(FrameKind::Checkpoint) };
        RawFrame { header: header.with_marks(self.frame.marks()), payload }
    }

    /// All sites, for the start of another file.
    #[must_use]
    pub fn all_sites(&self) -> Option<RawFrame> {
        sites_frame(1, self.sites.from(1))
    }
}

/// The frame of some sites; none when there are none.
fn sites_frame(first: usize, sites: &[Site]) -> Option<RawFrame> {
    let (mut payload, count) = (Vec::new(), sites.len() as u32);
    sites.iter().for_each(|site| site.encode(&mut payload));
    let header = FrameHeader { first: first as u64, count, ..FrameHeader::new(FrameKind::Sites) };
    (count > 0).then_some(RawFrame { header, payload })
}

/// The numbers now.
impl EventAccounting {
    /// Live bytes.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.rows.now.live_bytes
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

#[cfg(test)]
mod tests;
