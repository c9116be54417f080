//! Room for the frames of a full walk, outside the program's stack, which may be a small one.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;

use super::walk::Frames;
use crate::atomics::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::sys;

/// Concurrent walks before another walk maps a temporary buffer.
const PLACES: usize = 16;

struct Place {
    taken: AtomicBool,
    frames: UnsafeCell<Frames>,
}

// SAFETY: `taken` is a lock: one walk at a time uses the frames.
unsafe impl Sync for Place {}

/// The buffers of a session. Zeroed memory is valid: all are free.
pub(super) struct ScratchFrames([Place; PLACES]);

impl ScratchFrames {
    /// Runs `walk` with a buffer for frames; `None` without memory.
    pub(super) fn with_frames<T>(&self, walk: impl FnOnce(&mut Frames) -> T) -> Option<T> {
        let free = |place: &&Place| place.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        if let Some(place) = self.0.iter().find(free) {
            // SAFETY: taken, so ours alone; zeroed frames are valid.
            let result = walk(unsafe { &mut *place.frames.get() });
            place.taken.store(false, Release);
            return Some(result);
        }
        let bytes = size_of::<Frames>();
        let memory = sys::map_private(bytes).ok()?;
        // SAFETY: freshly mapped, large enough, page-aligned, zeroed.
        let result = walk(unsafe { &mut *memory.cast::<Frames>() });
        // SAFETY: the reference ended with `walk`.
        unsafe { sys::unmap(memory, bytes) };
        Some(result)
    }
}
