//! The stack of a thread's interpreter, read from its frames.
//!
//! **Claim.** A frame that is where it was in the last stack, at the same instruction, and whose
//! callers all are, has the same functions and lines below it.
//!
//! **Why.** A position belongs to one code object, whose end is noticed ([`super::codes`]). Every
//! caller's position is compared, down to the outermost frame; nothing is concluded from the
//! innermost frame alone, because a frame is reused by the next call of another caller.
#![allow(unsafe_code)]

use heapwise_format::segment::Counter;

use super::Interpreter;
use super::layout::Layout;
use super::locations::{Locations, Position};
use super::positions::Positions;
use super::woven::Last;
use crate::arch::opaque_word;
use crate::runtimes::memory::{Pages, byte, word};
use crate::runtimes::woven::{DEPTH, Woven, mixed};
use crate::session::Session;
use crate::sites::tallies::TallyRef;

/// Frames whose place in the last stack is remembered, as a power of two.
const HINT_BITS: u32 = 10;
/// Times that a walk expects all outer frames to be unchanged.
const ATTEMPTS: u32 = 2;
/// Bytes of a frame that are read, whatever the version.
const FRAME_BYTES: u64 = 112;
/// Owners from here on mark the entry frame of an eval loop, which is not a function (3.12 on).
const FIRST_ENTRY_OWNER: u8 = 3;

/// A frame of the last stack.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) frame: u64,
    /// An encoded `NodePlace`; 0 for an entry frame, which is not a function.
    pub(super) place: u64,
    /// An eval loop of the interpreter begins with this frame.
    pub(super) is_entry: bool,
}

/// What is compared of a frame of the last stack.
#[derive(Clone, Copy)]
struct Seen {
    frame: u64,
    /// See [`key_of`].
    key: u64,
}

/// What is known of a thread's interpreter stack. Zeroed memory is valid: nothing.
pub(crate) struct Memo {
    pub(super) len: usize,
    /// See [`Memo::take_kept`].
    kept: usize,
    pages: Pages,
    hints: [u16; 1 << HINT_BITS],
    /// The last stack, the outermost frame first, and what is compared of it.
    pub(super) known: [Known; DEPTH],
    seen: [Seen; DEPTH],
    /// The hash of the places of so many outermost frames of the last stack.
    hashes: [u64; DEPTH + 1],
    /// The frames of a walk, the innermost first.
    walked: [u64; DEPTH],
    locations: Locations,
    pub(super) last: Last,
    thread: OwnThread,
    pub(super) positions: Positions,
    pub(super) woven: Woven,
}

/// The calling thread's state that had the lock last, and its thread id. Zeroed memory is valid:
/// not known.
#[derive(Clone, Copy)]
pub(super) struct OwnThread {
    pub(super) state: u64,
    pub(super) id: u64,
}

/// A walk's result.
struct Walk {
    len: usize,
    /// So many innermost frames differ from the last stack.
    changed: usize,
}

fn hint_slot(frame: u64) -> usize {
    ((frame >> 3) as u32).wrapping_mul(0x9e37_79b1) as usize >> (32 - HINT_BITS)
}

impl Memo {
    /// Drops the last stack: it was that of another thread.
    pub(crate) fn reset(&mut self) {
        self.len = 0;
        self.thread = OwnThread { state: 0, id: 0 };
    }

    /// Caches the tally of the stack that was woven last, in which a block of `size` bytes was
    /// counted.
    pub(crate) fn cache_tally(&mut self, session: &Session, tally: TallyRef, size: u64) {
        self.woven.cache_tally(session, tally, size);
    }

    /// Drops the cached stacks of another generation of the session.
    pub(crate) fn validate(&mut self, generation: u64) {
        if self.woven.validate(generation) {
            self.positions.clear();
        }
    }

    /// The stack that was captured last, the outermost frame first.
    pub(super) fn frames(&self) -> &[Known] {
        self.known.get(..self.len).unwrap_or(&[])
    }

    /// Outermost frames that all stacks since the last call had.
    pub(super) fn take_kept(&mut self) -> usize {
        core::mem::replace(&mut self.kept, self.len)
    }

    /// The thread state whose frames the calling thread runs.
    #[inline(always)]
    pub(super) fn thread_state(&mut self, interpreter: &Interpreter) -> Option<u64> {
        interpreter.thread_state(&mut self.thread, &mut self.pages)
    }

    /// The innermost frame of the calling thread.
    #[inline(always)]
    pub(super) fn top_frame(&mut self, interpreter: &Interpreter) -> Option<u64> {
        interpreter.top_frame(&mut self.thread, &mut self.pages)
    }

    /// As [`Memo::top_frame`], if it can be read and the known pages are of this generation.
    #[inline(always)]
    pub(super) fn readable_top_frame(&mut self, interpreter: &Interpreter, generation: u32) -> Option<u64> {
        if !self.pages.is_of(generation) {
            return None;
        }
        let frame = self.top_frame(interpreter)?;
        (frame.is_multiple_of(8) && self.pages.holds_all(frame, FRAME_BYTES)).then_some(frame)
    }

    /// As [`Memo::readable_top_frame`], if it is found without a call.
    #[inline(always)]
    pub(super) fn known_top_frame(
        &self,
        interpreter: &Interpreter,
        layout: &Layout,
        generation: u32,
    ) -> Option<u64> {
        if !self.pages.is_of(generation) {
            return None;
        }
        let frame = interpreter.known_top_frame(layout, &self.thread, &self.pages)?;
        (frame.is_multiple_of(8) && self.pages.are_known(frame, FRAME_BYTES)).then_some(frame)
    }

    /// Whether positions stand for places: the last stack is of this runtime generation, and the
    /// end of every code object that the thread met will be noticed.
    #[inline(always)]
    pub(super) fn may_skip_names(&self, interpreter: &Interpreter, generation: u32) -> bool {
        self.pages.is_of(generation) && interpreter.is_hooked() && !self.locations.has_unnoticed
    }

    /// The hash of the outermost `count` frames of the last stack.
    #[inline(always)]
    pub(super) fn hash_of(&self, count: usize) -> u64 {
        self.hashes.get(count).copied().unwrap_or(0)
    }

    /// The calling thread's stack has the outermost `count` frames of the last one.
    #[inline(always)]
    pub(super) fn note_callers(&mut self, count: usize) {
        self.kept = self.kept.min(count);
    }

    /// A word of the interpreter.
    pub(super) fn read(&mut self, address: u64) -> Option<u64> {
        self.pages.word(address)
    }

    /// Reads the stack of the calling thread; its hash, or `None` when it has none, or none that
    /// can be read.
    #[inline(always)]
    pub(super) fn capture(&mut self, session: &Session, interpreter: &Interpreter) -> Option<u64> {
        let is_stale = self.pages.validate(crate::runtimes::generation()) || !interpreter.is_hooked();
        if is_stale {
            self.len = 0;
        }
        self.len = self.read_frames(session, interpreter).unwrap_or(0);
        self.kept = self.kept.min(self.len);
        (self.len != 0).then(|| self.hash_of(self.len))
    }

    /// Reads the frames; how many there are.
    #[inline(always)]
    fn read_frames(&mut self, session: &Session, interpreter: &Interpreter) -> Option<usize> {
        if !interpreter.is_hooked() {
            self.thread_state(interpreter)?;
            interpreter.install_if_locked();
        }
        let top = self.top_frame(interpreter)?;
        let walk = self.walk(session, interpreter, top)?;
        self.rebuild(session, interpreter, &walk).then_some(walk.len)
    }

    /// Collects the frames from `top` outwards, and compares them with the last stack.
    fn walk(&mut self, session: &Session, interpreter: &Interpreter, top: u64) -> Option<Walk> {
        let layout = &interpreter.layout;
        let mut walk = Walk { len: 0, changed: 0 };
        let mut expected = self.len.checked_sub(1);
        let mut frame = top;
        let mut attempts = ATTEMPTS;
        while frame != 0 {
            let Some(place) = self.walked.get_mut(walk.len) else {
                session.segment.count(Counter::Truncated);
                walk.changed = walk.len;
                break;
            };
            *place = frame;
            let met = match expected.filter(|index| self.was_at(*index, frame)) {
                Some(index) => Some(index),
                None => {
                    // Not where it was: the frames inside of it have other callers.
                    walk.changed = walk.len;
                    self.find_elsewhere(frame)?
                }
            };
            walk.len += 1;
            // SAFETY: checked now, or when it became known, and nothing was unmapped since.
            let (key, previous) =
                unsafe { (key_of(layout, frame), word(frame + u64::from(layout.previous))) };
            match met.and_then(|index| Some((index, self.seen.get(index)?))) {
                Some((index, seen)) => {
                    if seen.key != key {
                        walk.changed = walk.len;
                    }
                    if attempts > 0 && self.is_unchanged(layout, index, previous) {
                        walk.len += index;
                        break;
                    }
                    attempts = attempts.saturating_sub(1);
                    expected = index.checked_sub(1);
                    if (previous == 0) != (index == 0) {
                        walk.changed = walk.len;
                    }
                }
                None => {
                    expected = None;
                    walk.changed = walk.len;
                }
            }
            frame = previous;
        }
        (walk.len != 0).then_some(walk)
    }

    /// Whether a frame has this index in the last stack.
    #[inline(always)]
    pub(super) fn was_at(&self, index: usize, frame: u64) -> bool {
        self.seen.get(index).is_some_and(|seen| seen.frame == frame)
    }

    /// The index of a frame in the last stack, if it was there; `None` when it cannot be read.
    #[inline(always)]
    pub(super) fn find_elsewhere(&mut self, frame: u64) -> Option<Option<usize>> {
        let hint = self.hints.get(hint_slot(frame)).map(|hint| usize::from(*hint));
        let index = hint.filter(|index| *index < self.len && self.was_at(*index, frame));
        let is_readable =
            index.is_some() || frame.is_multiple_of(8) && self.pages.holds_all(frame, FRAME_BYTES);
        is_readable.then_some(index)
    }

    /// Whether the outermost `count` frames of the last stack are the callers from `frame` on, and
    /// all of them.
    #[inline(always)]
    pub(super) fn is_unchanged(&self, layout: &Layout, count: usize, frame: u64) -> bool {
        let seen = self.seen.get(..count).unwrap_or(&[]);
        let previous = u64::from(layout.previous);
        // The usual layout has a loop of its own: it is the cost of deep recursion.
        if layout.has_instruction_address() {
            let instruction = u64::from(layout.instruction);
            // SAFETY: frames of the last stack were checked, and nothing was unmapped since.
            are_same(seen, frame, previous, |frame| unsafe { word(frame + instruction) })
        } else {
            // SAFETY: as above.
            are_same(seen, frame, previous, |frame| unsafe { key_of(layout, frame) })
        }
    }

    /// Names the frames that changed; false when one cannot be read.
    fn rebuild(&mut self, session: &Session, interpreter: &Interpreter, walk: &Walk) -> bool {
        let layout = &interpreter.layout;
        let unchanged = walk.len - walk.changed;
        self.kept = self.kept.min(unchanged);
        let mut hash = self.hash_of(unchanged);
        for inner in (0..walk.changed).rev() {
            let Some(frame) = self.walked.get(inner).copied() else { return false };
            let index = walk.len - 1 - inner;
            // SAFETY: `walk` checked the frame.
            let position = unsafe { Position::of(layout, frame) };
            let owner = match layout.minor {
                ..=10 => 1,
                // SAFETY: as above.
                _ => unsafe { byte(frame + u64::from(layout.owner)) },
            };
            let is_entry = if layout.minor >= 12 { owner >= FIRST_ENTRY_OWNER } else { owner != 0 };
            let place = if layout.minor >= 12 && is_entry {
                0
            } else {
                let Memo { locations, pages, .. } = self;
                // SAFETY: as above.
                match unsafe { locations.place(session, interpreter, pages, frame, position) } {
                    Some(place) => place,
                    None => return false,
                }
            };
            hash = mixed(hash, place ^ u64::from(is_entry));
            let Some(known) = self.known.get_mut(index) else { return false };
            *known = Known { frame, place, is_entry };
            if let Some(to) = self.hashes.get_mut(index + 1) {
                *to = hash;
            }
            // SAFETY: as above.
            let key = unsafe { key_of(layout, frame) };
            if let Some(seen) = self.seen.get_mut(index) {
                *seen = Seen { frame, key };
            }
            if let Some(hint) = self.hints.get_mut(hint_slot(frame)) {
                *hint = index as u16;
            }
        }
        true
    }
}

/// Whether the frames from `frame` outwards are those of `seen`, whose outermost is first.
#[inline(always)]
fn are_same(seen: &[Seen], mut frame: u64, previous: u64, key: impl Fn(u64) -> u64) -> bool {
    for seen in seen.iter().rev() {
        // Opaque: LLVM would read the frame at the loaded address and not at the equal one of the
        // last stack. So the loads of a frame do not wait for those of the frame before.
        if opaque_word(seen.frame ^ frame) != 0 || key(seen.frame) != seen.key {
            return false;
        }
        // SAFETY: a frame of the last stack, which was checked.
        frame = unsafe { word(seen.frame + previous) };
    }
    frame == 0
}

/// The position of a frame as one word: the address of the instruction, or the code object and the
/// index of the instruction, which is below 2²¹.
///
/// # Safety
/// The frame can be read.
#[inline(always)]
pub(super) unsafe fn key_of(layout: &Layout, frame: u64) -> u64 {
    // SAFETY: the caller's promise.
    let Position { code, instruction } = unsafe { Position::of(layout, frame) };
    if code == 0 { instruction } else { code >> 4 | instruction << 43 }
}
