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
use crate::{segment, sys};

static LOCKED: AtomicBool = AtomicBool::new(false);
/// Ranges in use. Private: what is in the segment may be overwritten by others.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Attempts to take the lock before the thread sleeps between them.
const SPINS: usize = 200;
/// Attempts in all: about 10 ms.
const ATTEMPTS: usize = SPINS + 200;
const PAUSE_NANOSECONDS: u64 = 50_000;

/// Starts empty (again after `fork`).
pub(super) fn init() {
    COUNT.store(0, Ordering::Relaxed);
    LOCKED.store(false, Ordering::Relaxed);
}

/// Whether the table is empty.
#[inline]
pub(crate) fn is_empty() -> bool {
    COUNT.load(Ordering::Relaxed) == 0
}

/// Inserts a range and removes the ranges that it covers.
pub(crate) fn insert(range: Mapping) {
    change(|ranges| ranges.insert(range));
}

/// Removes a range of addresses.
pub(crate) fn remove(start: u64, end: u64) {
    if !is_empty() {
        change(|ranges| ranges.remove(start, end));
    }
}

/// The range that holds an address.
pub(crate) fn get(address: u64) -> Option<Mapping> {
    if is_empty() || !lock() {
        return None;
    }
    let found = slots(0).and_then(|slots| Ranges::new(slots, COUNT.load(Ordering::Relaxed)).get(address));
    LOCKED.store(false, Ordering::Release);
    found
}

/// Counts a change that could not be made.
pub(crate) fn lose() {
    segment::count(Counter::LostMappings);
}

fn change(change: impl FnOnce(&mut Ranges<'_>) -> Result<(), Full>) {
    if !lock() {
        return lose();
    }
    // A change adds at most two ranges.
    if let Some(slots) = slots(2) {
        let mut ranges = Ranges::new(slots, COUNT.load(Ordering::Relaxed));
        let sequence = segment::counter(Counter::MappingsSequence);
        sequence.fetch_add(1, Ordering::SeqCst);
        if change(&mut ranges).is_err() {
            lose();
        }
        COUNT.store(ranges.count(), Ordering::Relaxed);
        segment::counter(Counter::Mappings).store(ranges.count() as u64, Ordering::Relaxed);
        sequence.fetch_add(1, Ordering::SeqCst);
    } else {
        lose();
    }
    LOCKED.store(false, Ordering::Release);
}

/// Takes the lock; false when other threads hold it for too long.
fn lock() -> bool {
    for attempt in 0..ATTEMPTS {
        if LOCKED.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return true;
        }
        if attempt < SPINS {
            core::hint::spin_loop();
        } else {
            sys::sleep(PAUSE_NANOSECONDS);
        }
    }
    false
}

/// The ranges in use and up to `more` free slots. To be used under the lock.
fn slots(more: u64) -> Option<&'static mut [Mapping]> {
    let used = COUNT.load(Ordering::Relaxed) as u64;
    let capacity = segment::section(SectionKind::Mappings).capacity;
    let mut wanted = (used + more).min(capacity);
    // The table is populated from the front; without memory it stays as it is.
    for index in used..wanted {
        if segment::record(SectionKind::Mappings, index).is_none() {
            wanted = index;
            break;
        }
    }
    let first = segment::existing(SectionKind::Mappings, 0)?;
    // SAFETY: so many records are populated and inside the section; the lock makes this the only
    // reference.
    Some(unsafe { core::slice::from_raw_parts_mut(first.cast(), wanted as usize) })
}
