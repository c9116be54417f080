//! The ring of recorded blocks, found by address when they are freed.
#![allow(unsafe_code)]

use heapwise_format::segment::Counter;

use crate::atomics::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::segment::Segment;
use crate::sys;

/// Most blocks kept.
pub(super) const CAPACITY: u64 = 1 << 16;
/// Attempts to take the lock before an event is dropped: a holder that the program stopped must not
/// block other threads.
const PATIENCE: u32 = 10_000;

/// A recorded block. Zeroed memory is valid.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Record {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) usable: u64,
    pub(super) born_ns: u64,
    /// 0 while it lives.
    pub(super) freed_ns: u64,
    pub(super) node: u32,
    /// Slab of the thread; 0: unknown.
    pub(super) thread: u32,
    pub(super) freed_thread: u32,
    /// Number of the record before it of the same hash.
    pub(super) previous: u64,
}

struct Table {
    records: [Record; CAPACITY as usize],
    /// Number of the last record of each hash.
    heads: [u64; CAPACITY as usize],
}

/// The ring of a session. Zeroed memory is valid: none is mapped.
pub(super) struct Ring {
    table: AtomicPtr<Table>,
    is_locked: AtomicBool,
    /// Records so far. Their numbers start at 1.
    count: AtomicU64,
}

fn place(number: u64) -> usize {
    (number % CAPACITY) as usize
}

fn hash(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
}

impl Ring {
    /// Maps the ring; false without memory.
    pub(super) fn prepare(&self) -> bool {
        if self.table.load(Ordering::Acquire).is_null() {
            let Ok(memory) = sys::map_private(size_of::<Table>()) else { return false };
            let none = core::ptr::null_mut();
            let publish =
                self.table.compare_exchange(none, memory.cast(), Ordering::AcqRel, Ordering::Relaxed);
            if publish.is_err() {
                // SAFETY: another thread was faster; ours was never seen.
                unsafe { sys::unmap(memory, size_of::<Table>()) };
            }
        }
        true
    }

    /// Unmaps the ring. No thread may use it afterwards.
    pub(super) fn release(&self) {
        let table = self.table.swap(core::ptr::null_mut(), Ordering::Relaxed);
        if !table.is_null() {
            // SAFETY: mapped by `prepare` with this size.
            unsafe { sys::unmap(table.cast(), size_of::<Table>()) };
        }
    }

    /// Uses the ring under its lock; `None`, counted, when another thread does not release the
    /// lock.
    fn locked<T>(&self, segment: &Segment, act: impl FnOnce(&mut Table) -> T) -> Option<T> {
        let table = self.table.load(Ordering::Acquire);
        if table.is_null() || !(0..PATIENCE).any(|_| !self.is_locked.swap(true, Ordering::Acquire)) {
            segment.count(Counter::LostEvents);
            return None;
        }
        // SAFETY: mapped, zeroed memory is valid, and the lock makes this the only use.
        let result = act(unsafe { &mut *table });
        self.is_locked.store(false, Ordering::Release);
        Some(result)
    }

    /// Numbers of the records that are still there.
    pub(super) fn numbers(&self) -> core::ops::Range<u64> {
        let next = self.count.load(Ordering::Relaxed) + 1;
        next.saturating_sub(CAPACITY).max(1)..next
    }

    pub(super) fn add(&self, segment: &Segment, record: Record) {
        self.locked(segment, |table| {
            let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
            if let (Some(slot), Some(head)) =
                (table.records.get_mut(place(number)), table.heads.get_mut(hash(record.address)))
            {
                *slot = Record { previous: core::mem::replace(head, number), ..record };
            }
        });
    }

    /// A block is freed: the last one of this address.
    pub(super) fn end(&self, segment: &Segment, address: u64, thread: u32, now: u64) {
        self.locked(segment, |table| {
            let kept = self.numbers();
            let mut number = table.heads.get(hash(address)).copied().unwrap_or(0);
            while kept.contains(&number) {
                let Some(record) = table.records.get_mut(place(number)) else { return };
                if record.address == address {
                    if record.freed_ns == 0 {
                        (record.freed_ns, record.freed_thread) = (now.max(1), thread);
                    }
                    return;
                }
                // Older records have smaller numbers; anything else was overwritten.
                if record.previous >= number {
                    return;
                }
                number = record.previous;
            }
        });
    }

    /// A copy of a record; `None` when it was overwritten meanwhile.
    pub(super) fn record(&self, segment: &Segment, number: u64) -> Option<Record> {
        let record = self.locked(segment, |table| table.records.get(place(number)).copied()).flatten();
        record.filter(|_| self.numbers().contains(&number))
    }
}
