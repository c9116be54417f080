//! A fixed number of values, each used by one thread at a time.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;

use crate::atomics::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

struct Slot<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `taken` is a lock: one thread at a time uses the value, of which nothing is tied to a
// thread.
unsafe impl<T> Sync for Slot<T> {}

/// The values. Zeroed memory is valid, if it is a valid `T`: all are free.
pub(crate) struct Slots<T, const COUNT: usize>([Slot<T>; COUNT]);

impl<T, const COUNT: usize> Slots<T, COUNT> {
    /// Calls `act` with a value that no other thread uses meanwhile; returns `act` when all are in
    /// use.
    pub(crate) fn with<R, A: FnOnce(&mut T) -> R>(&self, act: A) -> Result<R, A> {
        let take = |slot: &&Slot<T>| slot.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        let Some(slot) = self.0.iter().find(take) else { return Err(act) };
        // SAFETY: taken by this thread alone.
        let result = act(unsafe { &mut *slot.value.get() });
        slot.taken.store(false, Release);
        Ok(result)
    }
}
