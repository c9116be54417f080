//! The native frames of a stack one by one, with their places on it.

use super::rule_cache::Rules;
use super::step::{State, Step, step};
use super::walk::place_of;
use super::{Entry, MAX_DEPTH, OwnStack};
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
