//! The recorder's book: counts what came and went at each site, keeps the totals, and writes entries.
//!
//! An allocation is counted at once, but its entry waits for the next event: if that frees the block, it was temporary, and one
//! entry says both. A free that comes before its allocation (threads are in order only by the millisecond) is refused if it may
//! wait, and else a debt that the next allocation at the same site pays: no reader ever sees more frees than
//! allocations.

mod debts;
mod page;
mod sites;
mod slices;

use heapwise_format::event::{Event, Freeing};
use heapwise_format::recording::{Age, AllocKind, Entry, FrameHeader, FrameKind, SiteBucket};
use heapwise_format::segment::Bucket;
use rustc_hash::FxHashMap;

use debts::{Debt, Debts};
use page::Page;
use sites::{Site, Sites};
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
    sites: Sites,
    written_buckets: usize,
    newest: Option<Newest>,
    debts: Debts,
    page: Page,
    /// Pages that are full, oldest first.
    full: Vec<RawFrame>,
    /// The thread's event before was a free, of a block that came from `realloc` or not: what a
    /// `realloc` by this thread goes on from.
    freed: Option<bool>,
    /// The same of the other threads.
    freed_by_others: FxHashMap<u32, bool>,
    sums: Sums,
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

/// The allocation that came last: counted, but not written yet.
#[derive(Debug, Clone, Copy)]
struct Newest {
    site: Site,
    kind: AllocKind,
}

/// What was booked since the numbers were last brought up to date: all in one millisecond. Bytes wrap around rather than
/// panic on sizes that no program can have.
///
/// What changes together stands together, and nothing else with it: the sums are stored and loaded again with every event, in
/// pairs, and a processor hands on what was stored only to a load of no more than that.
#[derive(Debug, Default)]
struct Sums {
    allocs: u64,
    alloc_bytes: u64,
    frees: u64,
    freed_bytes: u64,
    /// Highest excess of bytes allocated over bytes freed.
    most_bytes: i64,
}

/// A free whose block has not come for so long is one of a block never seen: its allocation was lost.
const PATIENCE_MS: u64 = 1000;

/// Taking in.
impl Ledger {
    /// Books one event of `thread` at millisecond `tick_ms`; ticks never run backwards. `describe` is asked for the record of
    /// a bucket that was not seen before.
    ///
    /// `false` when nothing was booked, never if it `must`: the event frees a block that another thread has yet to allocate.
    #[inline]
    pub fn book(
        &mut self,
        thread: u32,
        tick_ms: u64,
        event: &Event,
        must: bool,
        describe: &mut impl FnMut(u32) -> Option<Bucket>,
    ) -> bool {
        match *event {
            Event::Alloc { bucket } => {
                self.turn_to(thread, tick_ms);
                match self.sites.site(bucket, thread, describe) {
                    Some(site) => self.alloc(site),
                    None => self.gap(1),
                }
            }
            Event::Free { bucket, thread: allocator, age_ms, how } => {
                // What is older than the recording never came to it.
                let is_known = age_ms <= tick_ms;
                let site = if is_known { self.sites.site(bucket, allocator, describe) } else { None };
                let size = site.and_then(|site| self.sites.free(site));
                // A thread's own block came before, and if its place was taken, waiting does not bring it back.
                if size.is_none() && site.is_some() && !must && allocator != thread {
                    return false;
                }
                self.turn_to(thread, tick_ms);
                match (site, size) {
                    (Some(site), Some(size)) => {
                        self.sums.went(size);
                        self.free(site, age_ms, how);
                    }
                    (Some(site), None) => self.owe(site, age_ms, how),
                    (None, _) => self.unknown_free(),
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
            Event::Tick(_) => {}
        }
        true
    }

    #[inline]
    fn turn_to(&mut self, thread: u32, tick_ms: u64) {
        if tick_ms != self.tick_ms {
            self.pass(tick_ms);
        }
        if thread != self.page.thread() {
            self.switch(thread);
        }
    }

    #[cold]
    fn switch(&mut self, thread: u32) {
        self.write_newest();
        // A thread may be interrupted between the two events of a `realloc`.
        if let Some(from_realloc) = self.freed.take() {
            self.freed_by_others.insert(self.page.thread(), from_realloc);
        }
        self.freed = self.freed_by_others.remove(&thread);
        self.page.turn_to(thread);
    }

    /// Time passes up to `tick_ms`, with or without events.
    #[cold]
    pub fn pass(&mut self, tick_ms: u64) {
        let passed = tick_ms.saturating_sub(self.tick_ms);
        if passed == 0 {
            return;
        }
        self.settle();
        self.page.pass(passed, tick_ms);
        self.tick_ms = tick_ms;
        self.slices.pass(tick_ms);
        if let Some(until_ms) = tick_ms.checked_sub(PATIENCE_MS)
            && self.debts.is_time(tick_ms)
        {
            self.write_off(until_ms);
        }
    }

    /// No more events will come.
    pub fn end(&mut self) {
        self.write_off(u64::MAX);
        self.settle();
    }

    /// Notes the resident bytes of the process at the current time.
    pub fn resident(&mut self, bytes: u64) {
        self.settle();
        self.slices.now.rss_bytes = bytes;
        self.slices.touch();
    }

    /// Everything booked is in the numbers.
    pub fn settle(&mut self) {
        self.write_newest();
        let sums = std::mem::take(&mut self.sums);
        if sums.allocs | sums.frees == 0 {
            return;
        }
        let now = &mut self.slices.now;
        let highest = now.live_bytes.wrapping_add_signed(sums.most_bytes);
        now.allocs += sums.allocs;
        now.alloc_bytes = now.alloc_bytes.wrapping_add(sums.alloc_bytes);
        now.frees += sums.frees;
        now.live_bytes = now.live_bytes.wrapping_add(sums.alloc_bytes).wrapping_sub(sums.freed_bytes);
        now.live_blocks = (now.live_blocks + sums.allocs).saturating_sub(sums.frees);
        now.max_live_bytes = now.max_live_bytes.max(highest);
        self.slices.touch();
        self.totals.allocs += sums.allocs;
        self.totals.alloc_bytes = self.totals.alloc_bytes.wrapping_add(sums.alloc_bytes);
        self.totals.frees += sums.frees;
        if highest > self.peak_bytes {
            (self.peak_bytes, self.peak_ms) = (highest, self.tick_ms);
        }
    }
}

/// Writing down.
impl Ledger {
    #[inline(always)]
    fn put(&mut self, entry: Entry) {
        self.page.put(entry);
        if self.page.is_full() {
            self.turn_page();
        }
    }

    #[cold]
    #[inline(never)]
    fn turn_page(&mut self) {
        self.full.push(self.page.take(self.tick_ms));
    }

    /// The allocation that came last is not temporary.
    #[inline(always)]
    fn write_newest(&mut self) {
        if let Some(newest) = self.newest.take() {
            self.write_alloc(newest);
        }
    }

    #[inline(always)]
    fn write_alloc(&mut self, Newest { site, kind }: Newest) {
        self.put(Entry::Alloc { bucket: site.bucket(), kind });
    }

    #[inline]
    fn alloc(&mut self, site: Site) {
        self.write_newest();
        let (size, is_indebted) = self.sites.alloc(site);
        self.sums.came(size);
        let freed = self.freed.take();
        let kind = if site.is_realloc() { realloc_of(freed) } else { AllocKind::Fresh };
        self.newest = Some(Newest { site, kind });
        if is_indebted {
            self.pay(site);
        }
    }

    #[inline]
    fn free(&mut self, site: Site, age_ms: u64, how: Freeing) {
        let bucket = site.bucket();
        if how == Freeing::AtOnce
            && let Some(newest) = self.newest.take_if(|newest| newest.site == site)
        {
            self.put(Entry::Temporary { bucket, kind: newest.kind });
            self.freed = Some(site.is_realloc());
            return;
        }
        self.write_newest();
        let age = Age::between(self.tick_ms.saturating_sub(age_ms), self.tick_ms);
        if how == Freeing::Missed {
            // Seen by the allocation that follows, which may be a `realloc`'s: what was freed before still is.
            self.totals.missed_frees += 1;
            self.put(Entry::MissedFree { bucket, age });
        } else {
            self.put(Entry::Free { bucket, age });
            self.freed = Some(site.is_realloc());
        }
    }

    /// Books the free of a block that is yet to come.
    #[cold]
    fn owe(&mut self, site: Site, age_ms: u64, how: Freeing) {
        self.write_newest();
        let (thread, since_ms) = (self.page.thread(), self.tick_ms);
        let age = Age::between(since_ms.saturating_sub(age_ms), since_ms);
        self.debts.owe(site.bucket(), Debt { thread, since_ms, age, is_missed: how == Freeing::Missed });
        self.sites.set_indebted(site.bucket(), true);
        if how != Freeing::Missed {
            self.freed = Some(site.is_realloc());
        }
    }

    /// Writes down the free of a block that has just come.
    #[cold]
    fn pay(&mut self, site: Site) {
        self.write_newest();
        let bucket = site.bucket();
        let (debt, has_more) = self.debts.pay(bucket);
        self.sites.set_indebted(bucket, has_more);
        let Some(debt) = debt else { return };
        self.sums.went(self.sites.free(site).unwrap_or(0));
        let Debt { age, is_missed, .. } = debt;
        self.totals.missed_frees += u64::from(is_missed);
        let entry = if is_missed { Entry::MissedFree { bucket, age } } else { Entry::Free { bucket, age } };
        self.put_of(debt.thread, entry);
    }

    /// The blocks of frees that were booked until `until_ms` never came.
    #[cold]
    fn write_off(&mut self, until_ms: u64) {
        self.write_newest();
        for (bucket, debt) in self.debts.write_off(until_ms) {
            self.sites.set_indebted(bucket, self.debts.is_owed(bucket));
            self.totals.unknown_frees += 1;
            self.put_of(debt.thread, Entry::UnknownFree(1));
        }
    }

    /// Writes an entry of `thread` in between.
    #[cold]
    fn put_of(&mut self, thread: u32, entry: Entry) {
        let current = self.page.thread();
        self.page.turn_to(thread);
        self.put(entry);
        self.page.turn_to(current);
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
    fn came(&mut self, size: u64) {
        self.allocs += 1;
        self.alloc_bytes = self.alloc_bytes.wrapping_add(size);
        self.most_bytes = self.most_bytes.max(self.alloc_bytes.wrapping_sub(self.freed_bytes) as i64);
    }

    #[inline]
    fn went(&mut self, size: u64) {
        self.frees += 1;
        self.freed_bytes = self.freed_bytes.wrapping_add(size);
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

#[cfg(test)]
mod tests;
