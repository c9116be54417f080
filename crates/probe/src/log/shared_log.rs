//! The log of threads that have none of their own: ended ones, whose destructors still allocate and
//! free, and those that a signal interrupted inside the probe.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;

use heapwise_format::segment::Counter;

use super::ThreadLog;
use crate::atomics::{AtomicBool, Ordering};
use crate::{segment, sys};

struct Shared(UnsafeCell<ThreadLog>);
// SAFETY: used only while `LOCK` is held.
unsafe impl Sync for Shared {}
static SHARED: Shared = Shared(UnsafeCell::new(ThreadLog::new()));
static LOCK: AtomicBool = AtomicBool::new(false);

/// Steps of waiting for the lock: 10 ms in all. The holder may be the same thread, interrupted by a
/// signal, so the wait has a timeout.
const STEPS: u32 = 200;
const STEP_NS: u64 = 50_000;

/// Writes to the shared log; `None`, and a counted loss, when it is not to be had.
#[cold]
pub(crate) fn with_shared<T>(write: impl FnOnce(&mut ThreadLog) -> T) -> Option<T> {
    for _ in 0..STEPS {
        if !LOCK.swap(true, Ordering::Acquire) {
            // SAFETY: the lock is held.
            let result = write(unsafe { &mut *SHARED.0.get() });
            LOCK.store(false, Ordering::Release);
            return Some(result);
        }
        sys::sleep(STEP_NS);
    }
    segment::count(Counter::LostEvents);
    None
}

/// The segment is a new one; in a forked child the holder of the lock may not exist.
pub(super) fn init() {
    // SAFETY: called by the only thread there is.
    unsafe { *SHARED.0.get() = ThreadLog::new() };
    LOCK.store(false, Ordering::Release);
}
