//! The table of mappings: ranges of addresses that the program and its allocator mapped, with the
//! stack that mapped them. It is in the segment, sorted, for readers.
//!
//! Changes are rare (each belongs to a system call), so one lock serializes them. A thread waits
//! for it a bounded time; then the change is dropped and counted. The sequence is odd while records
//! move, so a reader knows when to read again.
#![allow(unsafe_code)]

use heapwise_format::segment::{Counter, Mapping, SectionKind};

use super::ranges::{Full, Ranges};
use crate::atomics::{AtomicBool, AtomicUsize, Ordering};
use crate::session::Session;
use crate::sys;

/// The mappings of a session. Zeroed memory is valid: none.
pub(crate) struct Mappings {
    is_locked: AtomicBool,
    /// Ranges in use. Private: what is in the segment may be overwritten by others.
    count: AtomicUsize,
}

/// Attempts to take the lock before the thread sleeps between them.
const SPINS: usize = 200;
/// Attempts in all: about 10 ms.
const ATTEMPTS: usize = SPINS + 200;
const PAUSE_NANOSECONDS: u64 = 50_000;

/// The right to use the table, while it exists.
struct Guard<'a>(&'a Mappings);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.is_locked.store(false, Ordering::Release);
    }
}

impl Mappings {
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes the lock; `None` when other threads hold it for too long.
    fn lock(&self) -> Option<Guard<'_>> {
        for attempt in 0..ATTEMPTS {
            if self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(Guard(self));
            }
            if attempt < SPINS {
                core::hint::spin_loop();
            } else {
                sys::sleep(PAUSE_NANOSECONDS);
            }
        }
        None
    }
}

/// Inserts a range and removes the ranges that it covers.
pub(crate) fn insert(session: &Session, range: Mapping) {
    change(session, |ranges| ranges.insert(range));
}

/// Removes a range of addresses.
pub(crate) fn remove(session: &Session, start: u64, end: u64) {
    if session.live.mappings.count() != 0 {
        change(session, |ranges| ranges.remove(start, end));
    }
}

/// The range that holds an address.
pub(crate) fn get(session: &Session, address: u64) -> Option<Mapping> {
    let mappings = &session.live.mappings;
    if mappings.count() == 0 {
        return None;
    }
    let mut guard = mappings.lock()?;
    Ranges::new(slots(session, &mut guard, 0)?, mappings.count()).get(address)
}

/// Counts a change that could not be made.
pub(crate) fn lose(session: &Session) {
    session.segment.count(Counter::LostMappings);
}

fn change(session: &Session, change: impl FnOnce(&mut Ranges<'_>) -> Result<(), Full>) {
    let mappings = &session.live.mappings;
    let Some(mut guard) = mappings.lock() else { return lose(session) };
    // A change adds at most two ranges.
    let Some(slots) = slots(session, &mut guard, 2) else { return lose(session) };
    let mut ranges = Ranges::new(slots, mappings.count());
    let sequence = session.segment.counter(Counter::MappingsSequence);
    sequence.fetch_add(1, Ordering::SeqCst);
    if change(&mut ranges).is_err() {
        lose(session);
    }
    mappings.count.store(ranges.count(), Ordering::Relaxed);
    session.segment.counter(Counter::Mappings).store(ranges.count() as u64, Ordering::Relaxed);
    sequence.fetch_add(1, Ordering::SeqCst);
}

/// The ranges in use and up to `more` free slots.
fn slots<'a>(session: &Session, guard: &'a mut Guard<'_>, more: u64) -> Option<&'a mut [Mapping]> {
    let used = guard.0.count() as u64;
    let segment = &session.segment;
    let capacity = segment.section(SectionKind::Mappings).capacity;
    let mut wanted = (used + more).min(capacity);
    // The table is populated from the front; without memory it stays as it is.
    for index in used..wanted {
        if segment.record(SectionKind::Mappings, index).is_none() {
            wanted = index;
            break;
        }
    }
    let first = segment.existing(SectionKind::Mappings, 0)?;
    // SAFETY: so many records are populated and inside the section; the lock makes this the only
    // reference.
    Some(unsafe { core::slice::from_raw_parts_mut(first.cast(), wanted as usize) })
}
