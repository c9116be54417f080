//! Room for the frames of a full walk, outside the program's stack, which may be a small one.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use super::walk::Frames;
use crate::atomics::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::sys;

/// Concurrent walks before another walk maps a temporary buffer.
const PLACES: usize = 16;

struct Place {
    taken: AtomicBool,
    frames: UnsafeCell<MaybeUninit<Frames>>,
}

// SAFETY: `taken` is a lock: one walk at a time uses the frames.
unsafe impl Sync for Place {}

static POOL: [Place; PLACES] =
    [const { Place { taken: AtomicBool::new(false), frames: UnsafeCell::new(MaybeUninit::zeroed()) } };
        PLACES];

/// Runs `walk` with a buffer for frames; `None` without memory.
pub(super) fn with_frames<T>(walk: impl FnOnce(&mut Frames) -> T) -> Option<T> {
    let free = |place: &&Place| place.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok();
    if let Some(place) = POOL.iter().find(free) {
        // SAFETY: taken, so ours alone; zeroed frames are valid.
        let result = walk(unsafe { (*place.frames.get()).assume_init_mut() });
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
