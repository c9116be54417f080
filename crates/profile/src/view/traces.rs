//! Whole stacks with what they allocated, as they are.

use std::sync::Arc;

use super::Totals;
use super::top::descending;
use crate::call_tree::NodeId;
use crate::{CallTree, Frame, Query, Weight};

/// Stacks, largest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Traces {
    /// The whole.
    pub totals: Totals,
    /// One per distinct stack.
    pub stacks: Vec<Trace>,
    /// Stacks left out by the limit.
    pub dropped: usize,
}

/// One stack.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Frames, the allocating one first.
    pub frames: Vec<Arc<Frame>>,
    /// Its allocations.
    pub weight: Weight,
}

/// Most stacks that are listed. Listing every stack of a compiler takes gigabytes, and a small file
/// can name a stack of a million frames a million times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackLimit {
    /// Stacks of one group.
    pub per_group: usize,
    /// Frames of all stacks together.
    pub frames: usize,
    /// Bytes of all stacks together, as text.
    pub text_bytes: u64,
}

impl StackLimit {
    /// Every stack.
    pub const NONE: StackLimit =
        StackLimit { per_group: usize::MAX, frames: usize::MAX, text_bytes: u64::MAX };
    /// Bytes of a frame besides its name: its place in a list and in a line of text.
    const FRAME_BYTES: u64 = 32;

    /// Stacks whose text is at most this long.
    #[must_use]
    pub fn of_text(text_bytes: u64) -> Self {
        Self { text_bytes, ..Self::NONE }
    }

    /// The stack of a node, leaf first, taken off the limit; `None` when that does not suffice.
    pub(super) fn take(&mut self, tree: &CallTree, id: NodeId) -> Option<Vec<Arc<Frame>>> {
        let (mut frames, mut text_bytes) = (self.frames, self.text_bytes);
        let mut stack = Vec::new();
        for frame in tree.leaf_to_root(id) {
            let frame = tree.frames.get(frame);
            frames = frames.checked_sub(1)?;
            text_bytes = text_bytes.checked_sub(frame.label.len() as u64 + Self::FRAME_BYTES)?;
            stack.push(Arc::clone(frame));
        }
        (self.frames, self.text_bytes) = (frames, text_bytes);
        Some(stack)
    }
}

/// The stacks of `tree`.
#[must_use]
pub fn traces(tree: &CallTree, query: &Query, mut limit: StackLimit) -> Traces {
    let mut leaves: Vec<_> = tree.frames_in_stacks().filter(|(_, node)| node.own.value != 0.0).collect();
    leaves.sort_by(|(a_id, a), (b_id, b)| descending(a.own.value, b.own.value).then_with(|| a_id.cmp(b_id)));
    let shown = query.limit.unwrap_or(usize::MAX).min(leaves.len());
    let stacks: Vec<Trace> = leaves[..shown]
        .iter()
        .map_while(|(id, node)| Some(Trace { frames: limit.take(tree, *id)?, weight: node.own }))
        .collect();
    let dropped = leaves.len() - stacks.len();
    Traces { totals: Totals::of(tree), stacks, dropped }
}
