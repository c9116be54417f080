//! Calls that return memory to the kernel without unmapping it (`madvise`), or create memory
//! without mapping it (`memfd_create`): sums per stack and kind, and the origin of each memfd.
//!
//! Both tables are in the segment. Slots of sums are claimed by a compare-and-exchange of their
//! key and only added to; so they need no lock and a signal handler may add to them. A kind whose
//! stacks find no slot is summed up in a slot of its own.
#![allow(unsafe_code)]

use heapwise_format::segment::{CallKind, Counter, Memfd, MemoryCall, SectionKind};

use crate::atomics::Ordering;
use crate::segment::{Segment, word32, word64};
use crate::session::Session;
use crate::sites::stack_tree;

/// Slots of the first part: what the segment populates at once.
const FIRST_SLOTS: u64 = 512;
/// Slots at which a key may be, in each part.
const LONGEST_RUN: u64 = 32;
/// Slots at the end for sums of what found no slot, one per kind.
const OVERFLOW_SLOTS: u64 = CallKind::ALL.len() as u64;

const COUNT: usize = core::mem::offset_of!(MemoryCall, count);
const BYTES: usize = core::mem::offset_of!(MemoryCall, bytes);
const FIRST_MS: usize = core::mem::offset_of!(MemoryCall, first_ms);
const LAST_MS: usize = core::mem::offset_of!(MemoryCall, last_ms);

/// The first word of a record: node and kind.
fn key(kind: CallKind, node: u32) -> u64 {
    (kind as u64) << 32 | u64::from(node)
}

/// Adds a call of `bytes` bytes from a stack.
pub(crate) fn add(session: &Session, kind: CallKind, node: u32, bytes: u64, time_ms: u32) {
    let segment = &session.segment;
    let Some((place, is_new)) = find(segment, kind, node).or_else(|| overflow(segment, kind)) else {
        return lose(session);
    };
    // SAFETY: a populated record; the offsets are those of its fields.
    let (count, sum) = unsafe { (word64(place, COUNT), word64(place, BYTES)) };
    // SAFETY: as above.
    let (first, last) = unsafe { (word32(place, FIRST_MS), word32(place, LAST_MS)) };
    if is_new {
        first.store(time_ms, Ordering::Relaxed);
    }
    sum.fetch_add(bytes, Ordering::Relaxed);
    last.fetch_max(time_ms, Ordering::Relaxed);
    // After the bytes: a reader that sees the call sees its bytes.
    count.fetch_add(1, Ordering::Release);
    segment.counter(Counter::MemoryCalls).fetch_add(1, Ordering::Release);
}

/// Counts a call that is not recorded.
pub(crate) fn lose(session: &Session) {
    session.segment.count(Counter::LostMemoryCalls);
}

/// The slot of a key, and whether it was claimed just now; `None` when its slots are taken.
fn find(segment: &Segment, kind: CallKind, node: u32) -> Option<(*mut u8, bool)> {
    let key = key(kind, node);
    let capacity = segment.section(SectionKind::MemoryCalls).capacity.checked_sub(OVERFLOW_SLOTS)?;
    let first = capacity.min(FIRST_SLOTS);
    for (start, slots) in [(0, first), (first, capacity - first)] {
        // Fibonacci hashing: the upper bits are the good ones.
        let home = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        for step in 0..LONGEST_RUN.min(slots) {
            let place = segment.record(SectionKind::MemoryCalls, start + (home + step) % slots)?;
            if let Some(is_new) = claim(place, key) {
                return Some((place, is_new));
            }
        }
    }
    None
}

/// The slot that sums up a kind.
fn overflow(segment: &Segment, kind: CallKind) -> Option<(*mut u8, bool)> {
    let capacity = segment.section(SectionKind::MemoryCalls).capacity;
    let place = segment.record(SectionKind::MemoryCalls, capacity.checked_sub(kind as u64)?)?;
    claim(place, key(kind, stack_tree::OUT_OF_SITES)).map(|is_new| (place, is_new))
}

/// Claims a slot for a key: whether it is new; `None` when another key has it.
fn claim(place: *mut u8, key: u64) -> Option<bool> {
    // SAFETY: the first word of a populated record.
    let word = unsafe { word64(place, 0) };
    match word.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(true),
        Err(found) => (found == key).then_some(false),
    }
}

/// Notes the stack that created a memfd. While another thread writes the slot,
/// the call is lost.
pub(crate) fn note_memfd(session: &Session, memfd: Memfd) {
    /// No inode: the record is being written.
    const BUSY: u64 = u64::MAX;
    let capacity = session.segment.section(SectionKind::Memfds).capacity;
    let Some(index) = memfd.inode.checked_rem(capacity) else { return lose(session) };
    let Some(place) = session.segment.record(SectionKind::Memfds, index) else { return lose(session) };
    // SAFETY: the two words of a populated record.
    let (inode, rest) = unsafe { (word64(place, 0), word64(place, size_of::<u64>())) };
    let before = inode.swap(BUSY, Ordering::Acquire);
    if before == BUSY {
        return lose(session);
    }
    rest.store(u64::from(memfd.time_ms) << 32 | u64::from(memfd.node), Ordering::Relaxed);
    inode.store(memfd.inode, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::TestSession;

    fn records(session: &Session) -> impl Iterator<Item = MemoryCall> {
        let capacity = session.segment.section(SectionKind::MemoryCalls).capacity;
        let read = |index| session.segment.read::<MemoryCall>(SectionKind::MemoryCalls, index);
        (0..capacity).filter_map(read).filter(|record| record.kind != 0)
    }

    #[test]
    fn calls_add_up_by_stack_and_kind() {
        let session = TestSession::new();
        for (kind, node, bytes, ms) in [
            (CallKind::DontNeed, 7, 4096, 3),
            (CallKind::DontNeed, 7, 8192, 9),
            (CallKind::Free, 7, 1, 4),
            (CallKind::DontNeed, 0, 2, 5),
        ] {
            add(&session, kind, node, bytes, ms);
        }
        let mut all: Vec<_> = records(&session)
            .map(|row| (row.kind, row.node, row.count, row.bytes, row.first_ms, row.last_ms))
            .collect();
        all.sort_unstable();
        assert_eq!(all, [(1, 0, 1, 2, 5, 5), (1, 7, 2, 12_288, 3, 9), (2, 7, 1, 1, 4, 4)]);
        assert_eq!(session.segment.counter(Counter::MemoryCalls).load(Ordering::Relaxed), 4);
    }

    #[test]
    fn totals_are_kept_when_the_table_is_full() {
        const CALLS: u32 = if cfg!(miri) { 600 } else { 10_000 };
        let session = TestSession::new();
        for node in 10..10 + CALLS {
            add(&session, CallKind::Remove, node, u64::from(node), 0);
        }
        let sum = |field: fn(&MemoryCall) -> u64| records(&session).map(|row| field(&row)).sum::<u64>();
        assert_eq!(sum(|row| row.count), u64::from(CALLS));
        assert_eq!(sum(|row| row.bytes), (10..10 + u64::from(CALLS)).sum::<u64>());
        let rest = records(&session).find(|row| row.node == stack_tree::OUT_OF_SITES);
        assert_eq!(rest.is_some(), CALLS > 4096);
    }

    #[test]
    fn the_last_memfd_of_a_slot_is_kept() {
        let session = TestSession::new();
        let capacity = session.segment.section(SectionKind::Memfds).capacity;
        let last = Memfd { inode: 5 + capacity, node: 9, time_ms: 12 };
        note_memfd(&session, Memfd { inode: 5, node: 3, time_ms: 1 });
        note_memfd(&session, last);
        assert_eq!(session.segment.read::<Memfd>(SectionKind::Memfds, 5), Some(last));
        assert_eq!(session.segment.counter(Counter::LostMemoryCalls).load(Ordering::Relaxed), 0);
    }
}
