//! The states that the calling thread runs, found on its C stack.
//!
//! A call into the interpreter has a C frame of a fixed layout, in which it keeps its state. A
//! state that runs points to its innermost C frame. The words of the frames of LuaJIT's binary are
//! tried: a state is one that points back.
#![allow(unsafe_code)]

use core::ops::Range;

use crate::runtimes::memory::{Pages, byte, half_word, word};
use crate::session::Session;
use crate::unwind::{self, NativeFrame, NativeStack, OwnStack};

/// Most states that run inside each other on a thread; of more the innermost ones.
const MOST: usize = 32;
/// Bytes of a state.
const STATE_BYTES: u64 = 96;
/// In a state: type, global state, innermost C frame.
const TYPE: u64 = 9;
const THREAD: u8 = 6;
const GLOBAL: u64 = 16;
const C_FRAME: u64 = 80;
/// In a C frame: its state.
const OF_STATE: u64 = 16;
/// Flags in the address of a C frame.
const FLAGS: u64 = 3;
/// Where the global state may have the address of the main state, which precedes it.
const MAIN_STATE: Range<u64> = 128..320;
const MAIN_STATE_BYTES: u64 = 256;

/// A state that the thread runs.
#[derive(Clone, Copy)]
pub(super) struct Running {
    pub(super) state: u64,
    /// Its innermost C frame.
    pub(super) c_frame: u64,
}

/// The states of a thread. Zeroed memory is valid: none.
pub(super) struct States {
    len: usize,
    running: [Running; MOST],
}

impl States {
    /// The states that the thread runs, the innermost first.
    pub(super) fn running(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().take(self.len)
    }

    /// Finds the states of the calling thread; `code` is LuaJIT's.
    pub(super) fn find(
        &mut self,
        session: &Session,
        pages: &mut Pages,
        own: OwnStack,
        stack: &mut NativeStack<'_>,
        code: &Range<u64>,
    ) {
        self.len = 0;
        let sp = stack.entry.sp;
        let mut inner: Option<NativeFrame> = None;
        stack.visit(session, &mut |frame| {
            if let Some(inner) = inner.replace(frame).filter(|inner| code.contains(&inner.code)) {
                unwind::visit_words(&own, inner.sp, frame.sp, &mut |_, state| {
                    if let Some(c_frame) = c_frame_of(pages, &own, sp, state) {
                        self.insert(Running { state, c_frame });
                    }
                });
            }
        });
    }

    /// Inserts a state by the order of the stack.
    fn insert(&mut self, new: Running) {
        let States { running, len } = self;
        let known = running.get(..*len).unwrap_or_default();
        if known.iter().any(|known| known.state == new.state) {
            return;
        }
        let at = known.iter().position(|known| known.c_frame > new.c_frame).unwrap_or(*len);
        if at < MOST {
            let end = (*len).min(MOST - 1);
            running.copy_within(at..end, at + 1);
            if let Some(place) = running.get_mut(at) {
                *place = new;
            }
            *len = end + 1;
        }
    }

    /// Whether compiled code runs: the frames of its state are not written then.
    pub(super) fn is_compiled_code_running(&self, pages: &mut Pages) -> bool {
        let Some(innermost) = self.running().next() else { return false };
        let Some(global) = pages.word(innermost.state + GLOBAL) else { return false };
        if !pages.holds_all(global, MAIN_STATE.end) {
            return false;
        }
        let main = MAIN_STATE.step_by(8).find(|offset| {
            // SAFETY: checked.
            let main = unsafe { word(global + offset) };
            (1..MAIN_STATE_BYTES).contains(&global.wrapping_sub(main))
        });
        // The number of the compiled code that runs precedes it; it is negative where none does.
        // SAFETY: checked.
        main.is_some_and(|main| (unsafe { half_word(global + main - 8) } as i32) >= 0)
    }
}

/// The innermost C frame of a state that the thread runs; `None` when none is at the address, which
/// may be any.
fn c_frame_of(pages: &mut Pages, own: &OwnStack, sp: u64, state: u64) -> Option<u64> {
    if !state.is_multiple_of(8) || own.contains(state) || !pages.holds_all(state, STATE_BYTES) {
        return None;
    }
    // SAFETY: checked.
    let (kind, c_frame) = unsafe { (byte(state + TYPE), word(state + C_FRAME) & !FLAGS) };
    let is_on_stack = c_frame.is_multiple_of(8) && c_frame > sp && own.contains(c_frame + OF_STATE);
    // SAFETY: between the stack pointer and the end of the thread's own stack.
    (kind == THREAD && is_on_stack && unsafe { word(c_frame + OF_STATE) } == state).then_some(c_frame)
}
