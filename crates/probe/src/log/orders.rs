//! The numbers that order the events of an address among threads.
#![allow(unsafe_code)]

use heapwise_format::event::{SHARDS, shard};

use crate::arch;
use crate::atomics::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use crate::symbols::find_next;

/// The order counters, each in a cache line of its own.
#[repr(align(64))]
struct Shard(AtomicU32);
static ORDERS: [Shard; SHARDS] = [const { Shard(AtomicU32::new(0)) }; SHARDS];

static NOT_KNOWN: AtomicU8 = AtomicU8::new(0);
/// The libc's note that the process has a single thread, by which it leaves out its own locks; it is taken back
/// before a second thread begins. A libc without one, or a program with a copy of it, counts as threaded.
static SINGLE_THREADED: AtomicPtr<AtomicU8> = AtomicPtr::new((&raw const NOT_KNOWN).cast_mut());

/// Starts from zero (again after `fork`).
pub(super) fn init() {
    for order in &ORDERS {
        order.0.store(0, Ordering::Relaxed);
    }
    if let Some(note) = find_next(c"__libc_single_threaded") {
        SINGLE_THREADED.store(note.address.cast(), Ordering::Relaxed);
    }
}

#[inline(always)]
fn is_single_threaded() -> bool {
    // SAFETY: our own byte or libc's, which is never unloaded.
    unsafe { &*SINGLE_THREADED.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// The next number of an address's shard. Acquire and release, so that numbers of one address follow the
/// order in which threads handed it to each other.
#[inline(always)]
pub(super) fn draw(address: u64) -> u32 {
    // In bounds by the definition of `shard`.
    let Some(Shard(order)) = ORDERS.get(shard(address)) else { return 0 };
    if is_single_threaded() { arch::increment_alone(order) } else { order.fetch_add(1, Ordering::AcqRel) }
}
