//! The memory that the server may take as a whole, and its parts: finished renders, loaded
//! profiles, and the work of loading and rendering, which waits for room.

use std::sync::{Condvar, Mutex, PoisonError};

use heapwise_profile::Profile;

/// Bytes of a node of a stack table, in a call tree and in the tables that a view makes from it.
const WORK_PER_STACK_NODE: usize = 300;
/// A recording or profile needs about this many times the bytes of its file while it is read.
const WORK_PER_FILE_BYTE: usize = 10;
/// Least room for loading a profile: binaries are read for its symbols.
const LEAST_LOAD: usize = 32 << 20;

/// Shares of the memory of a server.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    total: usize,
    /// Bytes reserved for work under way.
    reserved: Mutex<usize>,
    released: Condvar,
}

impl MemoryBudget {
    pub(crate) fn new(total_bytes: usize) -> Self {
        Self { total: total_bytes, reserved: Mutex::default(), released: Condvar::new() }
    }

    /// Bytes of finished renders that are kept.
    pub(crate) fn render_cache(&self) -> usize {
        self.total / 8
    }

    /// Bytes of loaded profiles that are kept.
    pub(crate) fn profile_cache(&self) -> usize {
        self.total / 4
    }

    /// Bytes of the largest response.
    pub(crate) fn response(&self) -> usize {
        self.total / 8
    }

    /// Bytes of work at a time. The rest of the total is for the executable, and for memory that
    /// the allocator keeps after work and that no cache counts.
    fn work(&self) -> usize {
        self.total / 4
    }

    /// Waits until so many bytes of work are free. Work that needs more than all of it runs alone.
    pub(crate) fn reserve(&self, bytes: usize) -> Reservation<'_> {
        let bytes = bytes.min(self.work());
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        while *reserved + bytes > self.work() {
            reserved = self.released.wait(reserved).unwrap_or_else(PoisonError::into_inner);
        }
        *reserved += bytes;
        Reservation { budget: self, bytes }
    }
}

/// Room for work, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    budget: &'a MemoryBudget,
    bytes: usize,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        *self.budget.reserved.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.budget.released.notify_all();
    }
}

/// Room that loading a file of this size needs.
pub(crate) fn load_bytes(file_bytes: u64) -> usize {
    usize::try_from(file_bytes).unwrap_or(usize::MAX).saturating_mul(WORK_PER_FILE_BYTE).max(LEAST_LOAD)
}

/// Room that a view of these profiles needs.
pub(crate) fn view_bytes<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> usize {
    profiles.into_iter().map(|profile| profile.stacks.len() * WORK_PER_STACK_NODE).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn work_at_a_time_is_bounded() {
        let budget = MemoryBudget::new(400);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for bytes in [40, 40, 40, 70, 1000, 100, 30, 10] {
                let (budget, now, most) = (&budget, &now, &most);
                scope.spawn(move || {
                    let room = budget.reserve(bytes);
                    most.fetch_max(
                        now.fetch_add(room.bytes, Ordering::SeqCst) + room.bytes,
                        Ordering::SeqCst,
                    );
                    thread::yield_now();
                    now.fetch_sub(room.bytes, Ordering::SeqCst);
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 100);
        assert_eq!(*budget.reserved.lock().unwrap(), 0);
    }
}
