//! Memos for threads without a state: rare samples, mappings.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;

use super::Memo;
use crate::atomics::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Threads that use one at the same time; the stacks of others stay without frames of a runtime.
const PLACES: usize = 4;

struct Place {
    taken: AtomicBool,
    memo: UnsafeCell<Memo>,
}

// SAFETY: `taken` is a lock: one thread at a time uses the memo.
unsafe impl Sync for Place {}

/// The memos of a session. Zeroed memory is valid: all are free.
pub(crate) struct Spare([Place; PLACES]);

impl Spare {
    /// Calls `act` with a memo that knows nothing of the calling thread; `None` when all are in
    /// use.
    pub(crate) fn with_memo<T>(&self, act: impl FnOnce(&mut Memo) -> T) -> Option<T> {
        let free = |place: &&Place| place.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        let place = self.0.iter().find(free)?;
        // SAFETY: taken, so this is the only use; zeroed memory is valid.
        let memo = unsafe { &mut *place.memo.get() };
        memo.reset();
        let result = act(memo);
        place.taken.store(false, Release);
        Some(result)
    }
}
