//! The full walk: every frame from the caller to the end of the stack.

use heapwise_format::segment::NodePlace;

use super::machine::strip;
use super::rule::Rule;
use super::rule_cache::Rules;
use super::stack::Window;
use super::step::{State, Step, step};
use super::{Captured, MAX_DEPTH};
use crate::session::Session;
use crate::sites::stack_tree::{self, Key};

/// A frame in the form that the stack tree stores.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Frame {
    place: u64,
    module: u32,
}

impl Frame {
    #[inline(always)]
    pub(super) fn of(state: &State, rule: Rule) -> Frame {
        Frame { place: place_of(state), module: rule.module() }
    }

    /// Its node, where `parent` is its caller's; `None` when there is no room.
    #[inline(always)]
    pub(super) fn node_upon(self, session: &Session, parent: u32) -> Option<u32> {
        stack_tree::child_of(session, Key::new(parent, self.place, self.module))
    }
}

/// The frames of a walk, the youngest first.
pub(super) type Frames = [Frame; MAX_DEPTH];

/// A walk's result.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Walk {
    len: usize,
    truncated: bool,
    broken: bool,
}

/// The place of a frame, as nodes encode it.
#[inline(always)]
pub(super) fn place_of(state: &State) -> u64 {
    let pc = strip(state.pc);
    if state.context == 0 { NodePlace::Return(pc).encode() } else { NodePlace::Interrupted(pc).encode() }
}

/// Does a frame with this rule make the whole stack count as broken?
#[inline(always)]
fn breaks(state: &State, rule: Rule) -> bool {
    rule.is_unknown() && !state.marks_end(rule)
}

/// Walks from `state`, at most `max_depth` frames.
pub(super) fn walk(
    mut state: State,
    stack: &mut Window,
    rules: Rules<'_>,
    max_depth: usize,
    frames: &mut Frames,
) -> Walk {
    let mut walk = Walk::default();
    for frame in frames.iter_mut().take(max_depth) {
        let rule = rules.rule(state.code());
        *frame = Frame::of(&state, rule);
        walk.len += 1;
        walk.broken |= breaks(&state, rule);
        match step(&state, rule, stack) {
            Step::Caller(caller) if caller.pc != 0 => state = caller,
            Step::Caller(_) | Step::End => return walk,
            Step::Broken => return Walk { broken: true, ..walk },
        }
    }
    Walk { truncated: true, ..walk }
}

impl Walk {
    /// Enters the stack into the tree.
    pub(super) fn intern(self, session: &Session, frames: &Frames) -> Captured {
        let mut node = stack_tree::ROOT;
        for frame in frames.iter().take(self.len).rev() {
            match frame.node_upon(session, node) {
                Some(child) => node = child,
                None => return Captured::out_of_space(),
            }
        }
        Captured { name: node, truncated: self.truncated, broken: self.broken }
    }
}
