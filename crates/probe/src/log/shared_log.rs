//! The log of threads that have none of their own: ended ones, whose destructors still allocate and
//! free, and those that a signal interrupted inside the probe.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;

use heapwise_format::segment::Counter;

use super::ThreadLog;
use crate::atomics::{AtomicBool, Ordering};
use crate::session::Session;
use crate::sys;

/// Zeroed memory is valid: an empty log, which is not locked.
pub(super) struct SharedLog {
    is_locked: AtomicBool,
    log: UnsafeCell<ThreadLog>,
}

// SAFETY: the log is used only while `is_locked` is held.
unsafe impl Sync for SharedLog {}

/// Steps of waiting for the lock: 10 ms in all. The holder may be the same thread, interrupted by a
/// signal, so the wait has a timeout.
const STEPS: u32 = 200;
const STEP_NS: u64 = 50_000;

/// Writes to the shared log; `None`, and a counted loss, when it is not to be had.
#[cold]
pub(crate) fn with_shared<T>(session: &Session, write: impl FnOnce(&mut ThreadLog) -> T) -> Option<T> {
    let SharedLog { is_locked, log } = &session.log.shared;
    for _ in 0..STEPS {
        if !is_locked.swap(true, Ordering::Acquire) {
            // SAFETY: the lock is held.
            let result = write(unsafe { &mut *log.get() });
            is_locked.store(false, Ordering::Release);
            return Some(result);
        }
        sys::sleep(STEP_NS);
    }
    session.segment.count(Counter::LostEvents);
    None
}
