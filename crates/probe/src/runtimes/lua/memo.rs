//! The Lua stack of a thread, read from the calls of the states that it runs.
//!
//! **Claim.** Where every block is recorded, a call that is where it was in the last stack, at the
//! same instruction, and whose callers all are, runs the same function as then.
//!
//! **Why.** Another function at the same instruction address was made after the old one was
//! collected. That allocates, in a call that is in the place of the old one or further out, so the
//! last stack was another one.
#![allow(unsafe_code)]

use heapwise_format::segment::Counter;

use super::calls::Call;
use super::engine;
use super::functions::Functions;
use super::layout::Layout;
use super::layout::common::CALL;
use super::running::{Running, States};
use crate::control::Activity;
use crate::runtimes::Moving;
use crate::runtimes::by_address::Marked;
use crate::runtimes::memory::{Pages, word};
use crate::runtimes::woven::{DEPTH, mixed};
use crate::session::Session;
use crate::unwind::{Entry, NativeId, NativeStack};

/// Addresses below are none: offsets, while Lua moves a stack.
const LOWEST: u64 = 1 << 16;
/// Largest stack of a state: a million values.
const STACK_BYTES: u64 = 16 << 20;
/// Where a stack begins in its block: behind a head of the program's own allocator.
const HEAD_BYTES: u64 = 32;

/// A call of a Lua function.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    call: u64,
    /// Its next instruction.
    next: u64,
    /// See [`Running`]: the call is one of that state.
    jump: u64,
    state: u64,
    engine: usize,
}

/// A frame of the last stack.
#[derive(Clone, Copy)]
struct Known {
    /// An encoded `NodePlace`.
    place: u64,
    /// Of the places from the outermost frame to this one.
    hash: u64,
    /// The C stack's address of the state that it belongs to.
    jump: u64,
}

/// What is known of a thread's Lua stack. Zeroed memory is valid: nothing.
pub(crate) struct Memo {
    len: usize,
    pages: Pages,
    states: States,
    /// The last stack, the outermost frame first.
    seen: [Seen; DEPTH],
    known: [Known; DEPTH],
    /// The calls of a walk, the innermost first.
    walked: [Seen; DEPTH],
    functions: Functions,
    /// A block that is moved.
    moving: Option<Moving>,
}

impl Memo {
    /// Drops the last stack: it was that of another thread.
    pub(in crate::runtimes) fn reset(&mut self) {
        self.len = 0;
        self.pages.clear();
        self.states.reset();
    }

    /// Drops what depends on an older generation.
    pub(in crate::runtimes) fn validate(&mut self, generation: u64) {
        self.states.reset();
        self.functions.validate(generation);
    }

    pub(in crate::runtimes) fn set_moving(&mut self, moving: Option<Moving>) {
        self.moving = moving;
    }

    /// The stack that was captured last, the outermost frame first.
    fn frames(&self) -> &[Known] {
        self.known.get(..self.len).unwrap_or(&[])
    }

    /// Reads the Lua stack of the calling thread; its hash, or `None` when it has none, or none
    /// that can be read.
    pub(super) fn capture(&mut self, session: &Session, stack: &mut NativeStack<'_>) -> Option<u64> {
        self.validate_pages(session);
        let Memo { states, pages, .. } = self;
        states.find(session, pages, stack);
        self.read(session)
    }

    /// As [`Memo::capture`], of a native stack that is known; else `None`.
    #[inline(always)]
    pub(super) fn capture_known(
        &mut self,
        session: &Session,
        native: NativeId,
        entry: &Entry,
    ) -> Option<Option<u64>> {
        self.validate_pages(session);
        self.states.find_cached(native, entry).then(|| self.read(session))
    }

    /// The stack that was captured last, with the addresses by which it is put into the native one.
    pub(super) fn marked(&self) -> impl DoubleEndedIterator<Item = Marked> {
        self.frames().iter().map(|known| Marked { place: known.place, mark: known.jump })
    }

    /// Drops the last stack when its pages may be gone, or when not every block is recorded.
    #[inline(always)]
    fn validate_pages(&mut self, session: &Session) {
        let is_every = matches!(session.control.activity(), Activity::Exact | Activity::Log);
        if self.pages.validate(crate::runtimes::generation()) || !is_every {
            self.len = 0;
        }
    }

    /// Reads the calls of the states that were found.
    #[inline(always)]
    fn read(&mut self, session: &Session) -> Option<u64> {
        let len = self.walk(session);
        self.len = len.filter(|len| self.rebuild(session, *len)).unwrap_or(0);
        self.frames().last().map(|frame| frame.hash)
    }

    /// Collects the calls of Lua functions, the innermost first; how many there are.
    #[inline(always)]
    fn walk(&mut self, session: &Session) -> Option<usize> {
        let Memo { states, pages, walked, .. } = self;
        let mut program_counter = states.program_counter;
        let mut len = 0;
        for Running { state, jump, engine: number, .. } in states.running().iter().copied() {
            let layout = &engine(number)?.layout;
            // SAFETY: `states` has checked it.
            let mut next = unsafe { word(state + CALL) };
            let base = state + u64::from(layout.error_jump) + 8;
            while next != base && next != 0 {
                let call = Call::at(pages, next)?;
                if call.is_lua(layout) {
                    let Some(place) = walked.get_mut(len) else {
                        session.segment.count(Counter::Truncated);
                        return Some(len);
                    };
                    let instruction = match program_counter {
                        0 => call.saved_pc(layout),
                        // SAFETY: a word of a native frame of the calling thread.
                        place => unsafe { word(place) },
                    };
                    *place = Seen { call: next, next: instruction, jump, state, engine: number };
                    len += 1;
                }
                // Only of the innermost call.
                program_counter = 0;
                next = call.previous();
            }
        }
        Some(len)
    }

    /// Names the calls that changed; false when one cannot be read.
    #[inline(always)]
    fn rebuild(&mut self, session: &Session, len: usize) -> bool {
        let walked = self.walked.get(..len).unwrap_or(&[]);
        let seen = self.seen.get(..self.len).unwrap_or(&[]);
        let equal = walked.iter().rev().zip(seen).take_while(|(walked, seen)| walked == seen).count();
        (equal..len).all(|index| self.name(session, index, len - 1 - index))
    }

    /// Names the call at `inner` of a walk, which becomes the frame at `index`.
    fn name(&mut self, session: &Session, index: usize, inner: usize) -> bool {
        let outer = index.checked_sub(1).and_then(|index| self.known.get(index));
        let outer = outer.map_or((0, 0), |known| (known.hash, known.jump));
        let Some(call) = self.walked.get(inner).copied() else { return false };
        let Some(place) = self.place(session, call) else { return false };
        let starts_state = outer.1 != call.jump;
        let hash = mixed(outer.0, place ^ u64::from(starts_state));
        if let (Some(seen), Some(known)) = (self.seen.get_mut(index), self.known.get_mut(index)) {
            *seen = call;
            *known = Known { place, hash, jump: call.jump };
        }
        true
    }

    fn place(&mut self, session: &Session, seen: Seen) -> Option<u64> {
        let layout = &engine(seen.engine)?.layout;
        let call = Call::at(&mut self.pages, seen.call)?;
        let function = self.function(layout, call, seen.state)?;
        let Memo { functions, pages, .. } = self;
        let at = |functions: &mut Functions, pages: &mut Pages, next| {
            functions.place(session, layout, pages, function, next)
        };
        at(functions, pages, seen.next).or_else(|| at(functions, pages, call.saved_pc(layout)))
    }

    /// The place of a call's function on the stack of its state, also while that is moved.
    fn function(&mut self, layout: &Layout, call: Call, state: u64) -> Option<u64> {
        let function = call.function();
        if let Some(Moving { old, new }) = self.moving {
            let stack = self.pages.word(state + u64::from(layout.stack))?;
            if stack.wrapping_sub(old) <= HEAD_BYTES {
                // An offset from the stack, or an address in it.
                let offset = if function < STACK_BYTES { function } else { function.wrapping_sub(stack) };
                return (offset < STACK_BYTES).then(|| stack - old + new + offset);
            }
        }
        Some(function).filter(|function| *function >= LOWEST)
    }
}
