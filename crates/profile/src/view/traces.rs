//! Whole stacks with what they allocated, as they are.

use std::sync::Arc;

use super::Totals;
use super::top::descending;
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

/// The stacks of `tree`.
#[must_use]
pub fn traces(tree: &CallTree, query: &Query) -> Traces {
    let mut leaves: Vec<_> = tree.frames_in_stacks().filter(|(_, node)| node.own.value != 0.0).collect();
    leaves.sort_by(|(a_id, a), (b_id, b)| descending(a.own.value, b.own.value).then_with(|| a_id.cmp(b_id)));
    let shown = query.limit.unwrap_or(usize::MAX).min(leaves.len());
    let stacks = leaves[..shown].iter().map(|(id, node)| Trace {
        frames: tree.leaf_to_root(*id).map(|frame| tree.frames.get(frame).clone()).collect(),
        weight: node.own,
    });
    Traces { totals: Totals::of(tree), stacks: stacks.collect(), dropped: leaves.len() - shown }
}
