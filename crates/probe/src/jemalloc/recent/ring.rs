//! The ring of recorded blocks, found by address when they are freed.
#![allow(unsafe_code)]

use heapwise_format::segment::Counter;

use crate::atomics::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::{segment, sys};

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

struct Ring {
    records: [Record; CAPACITY as usize],
    /// Number of the last record of each hash.
    heads: [u64; CAPACITY as usize],
}

static RING: AtomicPtr<Ring> = AtomicPtr::new(core::ptr::null_mut());
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Number of the next record, from 1, and of the first that counts.
static NEXT: AtomicU64 = AtomicU64::new(1);
static FIRST: AtomicU64 = AtomicU64::new(1);

/// Maps the ring; false without memory.
pub(super) fn prepare() -> bool {
    if RING.load(Ordering::Acquire).is_null() {
        let Ok(memory) = sys::map_private(size_of::<Ring>()) else { return false };
        let publish =
            RING.compare_exchange(core::ptr::null_mut(), memory.cast(), Ordering::AcqRel, Ordering::Relaxed);
        if publish.is_err() {
            // SAFETY: another thread was faster; ours was never seen.
            unsafe { sys::unmap(memory, size_of::<Ring>()) };
        }
    }
    true
}

/// Nothing counts that was there before; the lock's holder is gone (after `fork`).
pub(super) fn forget() {
    FIRST.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
    TAKEN.store(false, Ordering::Relaxed);
}

/// Uses the ring under its lock; `None`, counted, when another thread does not release the lock.
fn locked<T>(act: impl FnOnce(&mut Ring) -> T) -> Option<T> {
    let ring = RING.load(Ordering::Acquire);
    if ring.is_null() || !(0..PATIENCE).any(|_| !TAKEN.swap(true, Ordering::Acquire)) {
        segment::count(Counter::LostEvents);
        return None;
    }
    // SAFETY: never unmapped, zeroed memory is valid, and the lock makes this the only use.
    let result = act(unsafe { &mut *ring });
    TAKEN.store(false, Ordering::Release);
    Some(result)
}

fn place(number: u64) -> usize {
    (number % CAPACITY) as usize
}

fn hash(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
}

/// Numbers of the records that count.
pub(super) fn numbers() -> core::ops::Range<u64> {
    let next = NEXT.load(Ordering::Relaxed);
    FIRST.load(Ordering::Relaxed).max(next.saturating_sub(CAPACITY))..next
}

pub(super) fn add(record: Record) {
    locked(|ring| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if let (Some(slot), Some(head)) =
            (ring.records.get_mut(place(number)), ring.heads.get_mut(hash(record.address)))
        {
            *slot = Record { previous: core::mem::replace(head, number), ..record };
        }
    });
}

/// A block is freed: the last one of this address.
pub(super) fn end(address: u64, thread: u32, now: u64) {
    locked(|ring| {
        let kept = numbers();
        let mut number = ring.heads.get(hash(address)).copied().unwrap_or(0);
        while kept.contains(&number) {
            let Some(record) = ring.records.get_mut(place(number)) else { return };
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
pub(super) fn record(number: u64) -> Option<Record> {
    locked(|ring| ring.records.get(place(number)).copied()).flatten().filter(|_| numbers().contains(&number))
}
