//! Tallies of stacks by the position of the interpreter's innermost frame: most events of a loop
//! need neither the places of frames nor the cache of woven stacks.
//!
//! **Claim.** Stacks with the same native frames, the same position of the innermost Python frame
//! and the same callers of that frame are the same.
//!
//! **Why.** The callers are compared with those of the last stack that was read, down to the
//! outermost frame, and their hash identifies their places. A position belongs to one code object,
//! whose end changes the runtime generation.
#![allow(unsafe_code)]

use super::Interpreter;
use super::layout::Layout;
use super::memo::{Memo, key_of};
use crate::runtimes;
use crate::runtimes::memory::{byte, word};
use crate::session::Session;
use crate::sites::tallies::{CachedTally, TallyRef};
use crate::unwind::NativeId;

/// Cached stacks, as a power of two.
const BITS: u32 = 10;

/// What is compared of a stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    native: u64,
    innermost: Innermost,
    /// The runtime generation.
    generation: u32,
}

const NO_KEY: Key = Key { native: 0, innermost: Innermost { position: 0, callers: 0 }, generation: 0 };

/// The innermost frame of the interpreter.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Innermost {
    /// Its position, and in the highest byte whether an eval loop begins with it.
    position: u64,
    /// The hash of the frames outside of it.
    callers: u64,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Cached {
    key: Key,
    tally: CachedTally,
}

const NOTHING: Cached = Cached { key: NO_KEY, tally: CachedTally::NONE };

/// The tallies of a thread. Zeroed memory is valid: none.
pub(super) struct Recent {
    cached: [Cached; 1 << BITS],
    /// Of the last woven stack; [`NO_KEY`] where it may not be cached.
    last: Key,
}

impl Recent {
    #[inline(always)]
    fn slot(key: &Key) -> usize {
        let Innermost { position, callers } = key.innermost;
        let word = key.native ^ position.rotate_left(17) ^ callers.rotate_left(41);
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as usize
    }

    /// The calling thread's tally of a stack, if it is cached.
    #[inline(always)]
    pub(super) fn tally(&self, key: &Key) -> Option<&CachedTally> {
        self.cached.get(Self::slot(key)).filter(|cached| cached.key == *key).map(|cached| &cached.tally)
    }

    pub(super) fn insert(&mut self, key: Key, tally: CachedTally) {
        if key != NO_KEY
            && let Some(place) = self.cached.get_mut(Self::slot(&key))
        {
            *place = Cached { key, tally };
        }
    }

    /// A stack was woven.
    pub(super) fn set_last(&mut self, key: Option<Key>) {
        self.last = key.unwrap_or(NO_KEY);
    }

    /// Caches the tally of the last woven stack.
    pub(super) fn cache_tally(&mut self, session: &Session, tally: TallyRef) {
        self.insert(self.last, CachedTally::new(session, tally));
    }

    /// Drops the tallies: something changed that they depend on.
    pub(super) fn clear(&mut self) {
        self.cached.fill(NOTHING);
        self.last = NO_KEY;
    }
}

impl Memo {
    /// The key of the calling thread's stack, if its innermost frame has the callers that some
    /// frame of the last stack has, or is called by one. The last stack stays as it is.
    #[inline(always)]
    pub(super) fn key_by_callers(&mut self, interpreter: &Interpreter, native: NativeId) -> Option<Key> {
        let generation = runtimes::generation();
        if !self.may_skip_names(interpreter, generation) {
            return None;
        }
        let frame = self.top_frame(interpreter)?;
        let layout = &interpreter.layout;
        let (callers, previous) = self.callers_of(layout, frame)?;
        if !self.is_unchanged(layout, callers, previous) {
            return None;
        }
        self.note_callers(callers);
        let innermost = Innermost {
            // SAFETY: `callers_of` has checked the frame.
            position: unsafe { position(layout, frame) },
            callers: self.hash_of(callers),
        };
        Some(Key { native: native.word(), innermost, generation })
    }

    /// The key of the last stack; `None` when its tally may not be cached by it.
    pub(super) fn key_of_last(&self, interpreter: &Interpreter, native: NativeId) -> Option<Key> {
        let generation = runtimes::generation();
        let callers = self.frames().len().checked_sub(1)?;
        if !self.may_skip_names(interpreter, generation) {
            return None;
        }
        let frame = self.frames().last()?.frame;
        // SAFETY: a frame of the stack that was just read.
        let position = unsafe { position(&interpreter.layout, frame) };
        let innermost = Innermost { position, callers: self.hash_of(callers) };
        Some(Key { native: native.word(), innermost, generation })
    }

    /// How many frames of the last stack may be the callers of a frame, and its caller's address.
    #[inline(always)]
    fn callers_of(&mut self, layout: &Layout, frame: u64) -> Option<(usize, u64)> {
        let last = self.frames().len().checked_sub(1)?;
        let index = match self.was_at(last, frame) {
            true => Some(last),
            false => self.find_elsewhere(frame)?,
        };
        // SAFETY: checked now, or when it became known, and nothing was unmapped since.
        let previous = unsafe { word(frame + u64::from(layout.previous)) };
        match index {
            Some(index) => Some((index, previous)),
            None if previous == 0 => Some((0, 0)),
            None if self.was_at(last, previous) => Some((last + 1, previous)),
            None => self.find_elsewhere(previous)?.map(|index| (index + 1, previous)),
        }
    }
}

/// The position of a frame, and whether an eval loop begins with it.
///
/// # Safety
/// The frame can be read.
#[inline(always)]
unsafe fn position(layout: &Layout, frame: u64) -> u64 {
    // SAFETY: the caller's promise.
    let (key, owner) = unsafe {
        match layout.has_instruction_address() {
            true => (key_of(layout, frame), byte(frame + u64::from(layout.owner))),
            // Each frame has an eval loop of its own.
            false => return key_of(layout, frame),
        }
    };
    key ^ u64::from(owner) << 56
}
