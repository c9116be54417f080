//! Tallies: what was allocated and freed at each site.
//!
//! Numbers are handed out once and stay valid for the life of the segment, so the index of live
//! blocks can name a tally. Every tally has one writing thread, which loads and stores without a
//! lock prefix, except the shared ones ([`NO_THREAD`]), which all threads update atomically.
//!
//! This file has the table; `cached` what caches keep, `counts` what a record counts, `events` how
//! an event changes it, `lists` the tallies of several threads, `sums` what dumps read.
#![allow(unsafe_code)]

mod cached;
mod counts;
mod events;
mod lists;
mod sums;

use heapwise_format::segment::{Counter, NO_THREAD, SectionKind};

pub(crate) use cached::CachedTally;
pub(crate) use counts::{Amount, Counts, SiteKey, Writer, add};
use lists::Links;
pub(crate) use lists::{claim, first, make_remote, shared, shared_remote};
pub(crate) use sums::{Sum, each_sum};

use super::chain::Array;
use super::stack_tree;
use crate::atomics::{AtomicPtr, AtomicU32, Ordering};
use crate::session::Session;

/// A tally and its number.
#[derive(Clone, Copy)]
pub(crate) struct TallyRef {
    pub(crate) number: u32,
    pub(crate) counts: &'static Counts,
}

/// The tallies of a session. Zeroed memory is valid: none.
pub(crate) struct Tallies {
    /// The first record; null without a segment.
    base: AtomicPtr<Counts>,
    /// Tallies handed out. All records below are populated. Private: the segment may be overwritten
    /// by others.
    next: AtomicU32,
    links: Array<Links>,
}

impl Tallies {
    /// Unmaps the lists. No thread may use them afterwards.
    pub(crate) fn release(&self) {
        self.links.release();
    }

    /// Requests large pages: every block will be recorded.
    pub(crate) fn prefer_large_pages(&self) {
        self.links.prefer_large_pages();
    }

    /// Tallies handed out.
    fn used(&self) -> u32 {
        self.next.load(Ordering::Acquire)
    }
}

/// Tallies reserved at a time.
const CHUNK: u32 = 16;

/// Pairs of tallies for events that find no room, one pair a period, in turn. The tally
/// of a block so shows its period. Their numbers are in the first chunk.
const OVERFLOW_PAIRS: u32 = 7;

/// Reserves the tallies of events that find no room; false without memory.
pub(crate) fn reserve_overflow(session: &Session) -> bool {
    const { assert!(1 + 2 * OVERFLOW_PAIRS < CHUNK) };
    let section = session.segment.section(SectionKind::Tallies);
    let Tallies { base, links, .. } = &session.tallies;
    links.map(section.capacity);
    base.store(session.segment.base().wrapping_add(section.offset as usize).cast(), Ordering::Relaxed);
    take_numbers(session, CHUNK).is_some()
}

/// A new period has started: its tallies of events that find no room start at zero.
pub(crate) fn start_overflow(session: &Session) {
    for rate in [0, u16::MAX] {
        if let Some(tally) = overflow(session, rate) {
            clear(session, tally);
            describe(session, tally.number, SiteKey::new(stack_tree::OUT_OF_SITES, rate, NO_THREAD));
        }
    }
}

fn clear(session: &Session, tally: TallyRef) {
    let Counts { allocs, alloc_bytes, frees, freed_bytes, alloc_slack, freed_slack, .. } = tally.counts;
    for word in [allocs, alloc_bytes, frees, freed_bytes, alloc_slack, freed_slack] {
        word.store(0, Ordering::Relaxed);
    }
    if let Some(weights) = tally.weights(session) {
        weights.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
    if let Some(details) = tally.details(session) {
        for word in [&details.peak_blocks, &details.peak_bytes, &details.grown_bytes] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// Numbers for tallies, with their records populated; `None` when the table or the memory is full.
fn take_numbers(session: &Session, count: u32) -> Option<u32> {
    let (segment, next) = (&session.segment, &session.tallies.next);
    let capacity = segment.section(SectionKind::Tallies).capacity;
    loop {
        let first = next.load(Ordering::Acquire);
        let end = first + count;
        if u64::from(end) > capacity || !populate(session, SectionKind::Tallies, first, count) {
            return None;
        }
        if next.compare_exchange(first, end, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            segment.counter(Counter::Tallies).fetch_max(end.into(), Ordering::Release);
            return Some(first);
        }
    }
}

/// Populates the details of all tallies: the segment is about to be frozen.
pub(crate) fn reserve_details(session: &Session) {
    let _ = populate(session, SectionKind::TallyDetails, 0, session.tallies.used());
}

fn populate(session: &Session, kind: SectionKind, first: u32, count: u32) -> bool {
    let section = session.segment.section(kind);
    let Some(offset) = section.record_offset(first.into()) else { return false };
    session.segment.ensure_populated(offset, section.record_bytes * u64::from(count))
}

/// Numbers that a thread has taken and not used yet. Zeroed memory is valid: none.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reserve {
    next: u32,
    end: u32,
}

impl Reserve {
    fn take(&mut self, session: &Session) -> Option<u32> {
        if self.next == self.end {
            self.next = take_numbers(session, CHUNK)?;
            self.end = self.next + CHUNK;
        }
        self.next += 1;
        Some(self.next - 1)
    }
}

/// Writes a new record.
fn describe(session: &Session, number: u32, site: SiteKey) -> Option<TallyRef> {
    let counts = get(session, number)?;
    if site.rate() != 0 && !populate(session, SectionKind::TallyWeights, number, 1) {
        return None;
    }
    counts.now.store(session.peak.now(), Ordering::Relaxed);
    counts.site.store(site.0, Ordering::Release);
    Some(TallyRef { number, counts })
}

/// The tally of a number; `None` for a number that was not handed out.
#[inline(always)]
pub(crate) fn get(session: &Session, number: u32) -> Option<&'static Counts> {
    Table::current(session).get(number)
}

/// Address and length of the table, as cached by a thread. Zeroed memory is valid: empty.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    base: *const Counts,
    len: u32,
}

impl Table {
    #[inline(always)]
    pub(crate) fn current(session: &Session) -> Table {
        let len = session.tallies.used();
        Table { base: session.tallies.base.load(Ordering::Relaxed), len }
    }

    /// The tally of a number, if it was handed out when the table was taken.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&'static Counts> {
        // SAFETY: records below `len` are populated and stay mapped as long as the session; their
        // words are atomics. Threads keep them in their states, which end before the session.
        (number < self.len).then(|| unsafe { &*self.base.add(number as usize) })
    }
}

/// Makes a tally for a thread.
pub(crate) fn make(session: &Session, reserve: &mut Reserve, site: SiteKey) -> Option<TallyRef> {
    describe(session, reserve.take(session)?, site)
}

/// The tally of events of this period that find no room for one.
pub(crate) fn overflow(session: &Session, rate: u16) -> Option<TallyRef> {
    let number = 1 + 2 * (session.peak.period() % OVERFLOW_PAIRS) + u32::from(rate != 0);
    Some(TallyRef { number, counts: get(session, number)? })
}
