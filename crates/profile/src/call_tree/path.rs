//! What patterns and allocator frames mean for a stack: state of the path from root to leaf.

use crate::Profile;
use crate::frame_table::{FrameFlags, Steps};
use crate::query::Filter;

/// State of the path from the root to a stack node.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    focus: bool,
    ignore: bool,
    cut: bool,
    has_caller: bool,
}

impl Seen {
    /// Goes one frame leafward; returns whether the frame is outside the allocator. An allocator
    /// frame without a caller stays: it is the only frame to show. Script frames come after native
    /// ones, so they end the allocator's; so does a signal.
    pub(super) fn enter(&mut self, flags: FrameFlags) -> bool {
        self.cut = !flags.script && (self.cut || flags.allocator && self.has_caller);
        self.has_caller = true;
        if !self.cut {
            self.focus |= flags.focus;
            self.ignore |= flags.ignore;
        }
        let is_outside = !self.cut;
        self.cut &= !flags.interrupted;
        is_outside
    }

    /// Whether the patterns of `filter` select the stack.
    pub(super) fn passes(self, filter: &Filter) -> bool {
        !self.ignore && (self.focus || filter.focus.is_none())
    }
}

/// The state after every stack node; callers come before callees.
pub(super) fn walk_down(profile: &Profile, steps: &Steps) -> Vec<Seen> {
    let stacks = &profile.stacks;
    let mut seen = vec![Seen::default(); stacks.len()];
    for stack in stacks.ids() {
        let mut state = stacks.parent(stack).map_or_else(Seen::default, |parent| seen[parent.index()]);
        for step in steps.of(stacks.location(stack)) {
            state.enter(step.flags);
        }
        seen[stack.index()] = state;
    }
    seen
}
