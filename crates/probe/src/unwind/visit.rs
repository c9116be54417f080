//! The native frames of a stack one by one, with their places on it.
#![allow(unsafe_code)]

use super::rule_cache::Rules;
use super::stack::load;
use super::step::{State, Step, step};
use super::walk::place_of;
use super::{Entry, MAX_DEPTH, OwnStack, eh_frame, machine};
use crate::modules::Image;
use crate::session::Session;

/// A native frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NativeFrame {
    /// An encoded `NodePlace`.
    pub(crate) place: u64,
    /// As in a node of the stack tree.
    pub(crate) module: u32,
    /// An address in the code that runs.
    pub(crate) code: u64,
    /// Start of its part of the stack.
    pub(crate) sp: u64,
}

/// Calls `act` with each frame, the innermost first, at most `max_depth`.
pub(crate) fn visit(
    session: &Session,
    own: &mut OwnStack,
    entry: &Entry,
    max_depth: u32,
    act: &mut dyn FnMut(NativeFrame),
) {
    let rules = Rules::of(session, session.unwind.modules.generation());
    let mut stack = own.window(entry.sp);
    let mut state: State = entry.into();
    for _ in 0..(max_depth as usize).clamp(1, MAX_DEPTH) {
        let rule = rules.rule(state.code());
        act(NativeFrame { place: place_of(&state), module: rule.module(), code: state.code(), sp: state.sp });
        match step(&state, rule, &mut stack) {
            Step::Caller(caller) if caller.pc != 0 => state = caller,
            Step::Caller(_) | Step::End | Step::Broken => return,
        }
    }
}

/// Registers that a function keeps for its caller.
pub(crate) const KEPT_REGISTERS: usize = machine::CALLEE_SAVED.len();

/// Writes to `places` where a frame, whose part of the stack ends at `end`, has saved registers of
/// its caller. Returns the bytes of the function's code; 0 when that is not known.
pub(crate) fn find_saved(frame: &NativeFrame, end: u64, places: &mut [u64; KEPT_REGISTERS]) -> u64 {
    let saves = Image::find(frame.code).and_then(|image| eh_frame::saves_at(&image, frame.code));
    let Some((saves, bytes)) = saves else { return 0 };
    for (words, place) in saves.iter().zip(places).filter(|(words, _)| **words != 0) {
        let saved = end.wrapping_sub(u64::from(*words) * 8);
        if (frame.sp..end).contains(&saved) && saved.is_multiple_of(8) {
            *place = saved;
        }
    }
    bytes
}

/// Calls `act` with each word of the calling thread's stack from `start` to `end`, and its address;
/// nothing when they are not on the stack that the thread was started with.
pub(crate) fn visit_words(own: &OwnStack, start: u64, end: u64, act: &mut dyn FnMut(u64, u64)) {
    if own.contains(start) && own.contains(end.wrapping_sub(8)) {
        for address in (start..end).step_by(8) {
            // SAFETY: between the stack pointer and the end of the thread's own stack.
            act(address, unsafe { load(address) });
        }
    }
}
