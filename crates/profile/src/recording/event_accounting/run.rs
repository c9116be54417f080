//! Events one after another of one thread and millisecond: the recorder's hot loop.
//!
//! It takes the frequent kinds only, those of sites that were seen before. What it adds is what
//! [`EventAccounting::add`] adds, event by event, with one difference: whether a block is temporary
//! is read from the word behind its allocation, so the allocation need not be held back.

use heapwise_format::event::{Block, Event, Freeing, decode, freed_at_once};
use heapwise_format::recording::{AllocKind, Entry, SiteBlock};
use heapwise_format::segment::Tally;

use super::EventAccounting;
use crate::recording::merge::Taker;
use crate::recording::{Merger, Until};

/// Takes merged events into the account.
struct Booking<'a> {
    account: &'a mut EventAccounting,
    describe: &'a mut dyn FnMut(u32) -> Option<Tally>,
}

impl Taker for Booking<'_> {
    fn take(&mut self, thread: u32, ms: u64, event: &Event, must: bool) -> bool {
        self.account.add(thread, ms, event, must, &mut self.describe)
    }

    fn take_run(&mut self, thread: u32, ms: u64, bytes: &[u8]) -> usize {
        self.account.add_run(thread, ms, bytes)
    }
}

impl EventAccounting {
    /// Adds all events before `until`; returns the millisecond before which all are added.
    /// `describe` returns the record of a tally that was not seen before.
    pub fn add_merged(
        &mut self,
        merger: &mut Merger,
        until: Until,
        describe: &mut dyn FnMut(u32) -> Option<Tally>,
    ) -> u64 {
        merger.advance_into(until, &mut Booking { account: self, describe })
    }

    /// Adds the events at the start of `bytes` up to the first that is for
    /// [`EventAccounting::add`], as is the last, and the first of a thread and millisecond; returns
    /// how many bytes they have.
    pub(super) fn add_run(&mut self, thread: u32, tick_ms: u64, bytes: &[u8]) -> usize {
        let (mut at, mut end) = (0, 0);
        match decode(bytes, &mut end) {
            None | Some(Event::Free { how: Freeing::AtOnce, .. }) if self.newest.is_some() => return 0,
            _ if (thread, tick_ms) != (self.frame.thread(), self.tick_ms) => return 0,
            _ if !self.pending_frees.is_empty() => return 0,
            _ => self.write_newest(),
        }
        end = 0;
        while let Some(event) = decode(bytes, &mut end) {
            let is_added = match event {
                Event::Alloc(block) => self.run_alloc(block, bytes, &mut end),
                Event::Free { block, age_ms, how } => self.run_free(block, age_ms, how),
                _ => false,
            };
            if !is_added {
                break;
            }
            at = end;
        }
        at
    }

    /// Adds an allocation whose word ends at `end`, and the free behind it, if that is of the same
    /// block; false: nothing was added.
    #[inline(always)]
    fn run_alloc(&mut self, block: Block, bytes: &[u8], end: &mut usize) -> bool {
        let (Some(site), false) = (self.sites.known(block.tally), block.by_realloc) else { return false };
        // The event behind the last one is not known yet.
        let Some(freed) = freed_at_once(block, bytes, *end) else { return false };
        let (block, kind) = (SiteBlock { site, size: block.size }, AllocKind::Fresh);
        self.sums.alloc(block.size);
        if freed > 0 {
            *end += freed;
            self.sites.alloc_and_free(block);
            self.sums.free(block.size);
            self.freed = Some(false);
            self.put(Entry::Temporary { block, kind });
        } else {
            self.sites.alloc(block);
            self.freed = None;
            self.put(Entry::Alloc { block, kind });
        }
        true
    }

    #[inline(always)]
    fn run_free(&mut self, block: Block, age_ms: u64, how: Freeing) -> bool {
        let Some(site) = self.sites.known(block.tally) else { return false };
        let by_realloc = block.by_realloc;
        let block = SiteBlock { site, size: block.size };
        if age_ms > self.tick_ms || how == Freeing::Missed || !self.sites.free(block) {
            return false;
        }
        self.sums.free(block.size);
        let age = self.marked_rows.age(age_ms, self.tick_ms);
        self.put(Entry::Free { block, age });
        self.freed = Some(by_realloc);
        true
    }
}
