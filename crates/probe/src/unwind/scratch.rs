//! Room for the frames of a full walk, outside the program's stack, which may be a small one.
#![allow(unsafe_code)]

use super::walk::Frames;
use crate::os::slots::Slots;
use crate::sys;

/// Concurrent walks before another walk maps a temporary buffer.
const BUFFERS: usize = 16;

/// The buffers of a session. Zeroed memory is valid: all are free.
pub(super) struct ScratchFrames(Slots<Frames, BUFFERS>);

impl ScratchFrames {
    /// Runs `walk` with a buffer for frames; `None` without memory.
    pub(super) fn with_frames<T>(&self, walk: impl FnOnce(&mut Frames) -> T) -> Option<T> {
        let walk = match self.0.with(walk) {
            Ok(result) => return Some(result),
            Err(walk) => walk,
        };
        let bytes = size_of::<Frames>();
        let memory = sys::map_private(bytes).ok()?;
        // SAFETY: freshly mapped, large enough, page-aligned, zeroed.
        let result = walk(unsafe { &mut *memory.cast::<Frames>() });
        // SAFETY: the reference ended with `walk`.
        unsafe { sys::unmap(memory, bytes) };
        Some(result)
    }
}
