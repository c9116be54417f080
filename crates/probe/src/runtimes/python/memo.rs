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
use super::codes::CODES;
use super::locations::{Locations, Position};
use super::memory::{Pages, byte, word};
use super::woven::Woven;
use crate::session::Session;
use crate::unwind::OwnStack;

/// Deepest stack; of deeper ones the innermost frames.
pub(super) const DEPTH: usize = 1024;
/// Frames whose place in the last stack is remembered, as a power of two.
const HINT_BITS: u32 = 10;
/// Bytes of a frame that are read, whatever the version.
const FRAME_BYTES: u64 = 112;
/// Owners from here on mark the entry frame of an eval loop, which is no function (3.12 on).
const FIRST_ENTRY_OWNER: u8 = 3;

/// A frame of the last stack.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) frame: u64,
    position: Position,
    /// An encoded `NodePlace`; 0 for an entry frame, which is no function.
    pub(super) place: u64,
    /// Of the places from the outermost frame to this one.
    hash: u64,
    /// An eval loop of the interpreter begins with this frame.
    pub(super) is_entry: bool,
}

/// What is known of a thread's interpreter stack. Zeroed memory is valid: nothing.
pub(crate) struct Memo {
    len: usize,
    code_epoch: u32,
    pub(super) own_stack: OwnStack,
    pages: Pages,
    hints: [u16; 1 << HINT_BITS],
    /// The last stack, the outermost frame first.
    known: [Known; DEPTH],
    /// The frames of a walk, the innermost first.
    walked: [u64; DEPTH],
    locations: Locations,
    pub(super) woven: Woven,
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
    /// Forgets the last stack: it was another thread's.
    pub(crate) fn reset(&mut self) {
        self.len = 0;
        self.own_stack = OwnStack::default();
    }

    /// The stack that was captured last, the outermost frame first.
    pub(super) fn frames(&self) -> &[Known] {
        self.known.get(..self.len).unwrap_or(&[])
    }

    /// The thread state whose frames the calling thread runs.
    pub(super) fn thread_state(&mut self, interpreter: &Interpreter) -> Option<u64> {
        interpreter.thread_state(&mut self.pages)
    }

    /// A word of the interpreter.
    pub(super) fn read(&mut self, address: u64) -> Option<u64> {
        self.pages.word(address)
    }

    /// Reads the stack of the calling thread; its hash, or `None` when it has none, or none that
    /// can be read.
    pub(super) fn capture(&mut self, session: &Session, interpreter: &Interpreter) -> Option<u64> {
        let is_stale = self.pages.validate(interpreter.unmapped()) || !interpreter.is_hooked();
        if is_stale {
            self.len = 0;
        }
        let epoch = CODES.epoch();
        if self.code_epoch != epoch {
            self.code_epoch = epoch;
            self.len = 0;
            self.locations.clear();
        }
        let thread = interpreter.thread_state(&mut self.pages)?;
        let top = interpreter.top_frame(&mut self.pages, thread)?;
        let walk = self.walk(session, interpreter, top)?;
        if !self.rebuild(session, interpreter, &walk) {
            self.len = 0;
            return None;
        }
        self.len = walk.len;
        self.frames().last().map(|frame| frame.hash)
    }

    /// Collects the frames from `top` outwards, and compares them with the last stack.
    fn walk(&mut self, session: &Session, interpreter: &Interpreter, top: u64) -> Option<Walk> {
        let layout = &interpreter.layout;
        let mut walk = Walk { len: 0, changed: 0 };
        let mut expected = self.len.checked_sub(1);
        let mut frame = top;
        while frame != 0 {
            let Some(place) = self.walked.get_mut(walk.len) else {
                session.segment.count(Counter::Truncated);
                walk.changed = walk.len;
                break;
            };
            *place = frame;
            let is_expected =
                |index: &usize| self.known.get(*index).is_some_and(|known| known.frame == frame);
            let met = match expected.filter(is_expected) {
                Some(index) => Some(index),
                None => {
                    if !frame.is_multiple_of(8) || !self.pages.holds_all(frame, FRAME_BYTES) {
                        return None;
                    }
                    // Not where it was: the frames inside of it have other callers.
                    walk.changed = walk.len;
                    let hint = self.hints.get(hint_slot(frame)).map(|hint| usize::from(*hint));
                    hint.filter(|index| *index < self.len).filter(is_expected)
                }
            };
            walk.len += 1;
            // SAFETY: checked now, or when it became known, and nothing was unmapped since.
            let (position, previous) =
                unsafe { (Position::of(layout, frame), word(frame + u64::from(layout.previous))) };
            match met.and_then(|index| Some((index, self.known.get(index)?))) {
                Some((index, known)) => {
                    expected = index.checked_sub(1);
                    let is_end_common = (previous == 0) == (index == 0);
                    if known.position != position || !is_end_common {
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

    /// Names the frames that changed; false when one cannot be read.
    fn rebuild(&mut self, session: &Session, interpreter: &Interpreter, walk: &Walk) -> bool {
        let layout = &interpreter.layout;
        let unchanged = walk.len - walk.changed;
        let outer = unchanged.checked_sub(1).and_then(|index| self.known.get(index));
        let mut hash = outer.map_or(0, |known| known.hash);
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
            *known = Known { frame, position, place, hash, is_entry };
            if let Some(hint) = self.hints.get_mut(hint_slot(frame)) {
                *hint = index as u16;
            }
        }
        true
    }
}

/// Hash of a stack, with one more frame.
pub(super) fn mixed(hash: u64, place: u64) -> u64 {
    let mixed = (hash.rotate_left(23) ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
