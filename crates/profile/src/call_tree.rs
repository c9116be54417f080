//! The call tree of a query: the stacks of a profile after cutting, focusing, hiding and naming.
//! Every view is a sum over it.

mod build;
mod growing;
mod path;
mod reshape;
mod selection;

use std::sync::Arc;

use crate::coverage::Coverage;
use crate::frame_table::{FrameId, FrameTable};
use crate::metric::Unit;
use crate::unattributed::PerCause;
use crate::{StackId, Weight};

pub use selection::select;

/// A node of a [`CallTree`]; the root, which has no frame, is node 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node above all stacks.
    pub const ROOT: NodeId = NodeId(0);

    /// The row in the tree's columns.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Stacks as a prefix tree of frames, with sums.
///
/// Invariant: a parent precedes its children.
#[derive(Debug, Clone)]
pub struct CallTree {
    /// Name of the metric summed, e.g. `inuse_space`.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The distinct frames.
    pub frames: FrameTable,
    /// Sum of all samples, before any filter.
    pub grand_total: Weight,
    /// Whether values are differences to a base.
    pub compared: bool,
    /// Whether bytes are usable instead of requested ones.
    pub usable: bool,
    /// Unattributed and possibly missing memory.
    pub missing: Missing,
    /// Coverage of the profile.
    pub coverage: Arc<Coverage>,
    /// Coverage of the base.
    pub base_coverage: Option<Arc<Coverage>>,
    nodes: Vec<Node>,
    /// Where each stack of the profile ended up; [`FILTERED`] for those that take no part.
    node_of_stack: Vec<u32>,
}

const FILTERED: u32 = u32::MAX;

/// Memory that the totals of a tree include without attribution, and memory that they may lack.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Missing {
    /// Part of the profile's total, before any filter and without the base.
    pub unattributed: PerCause<Weight>,
    /// Blocks that may still be live though they are not counted; 0 for metrics of all allocations.
    pub untracked_blocks: u64,
    /// Their bytes.
    pub untracked_bytes: u64,
    /// Variance that untracked blocks add to totals of samples.
    variance: f64,
}

/// One row of a [`CallTree`].
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// The caller.
    pub parent: NodeId,
    /// The frame; meaningless for the root.
    pub frame: FrameId,
    /// Amount allocated by the frame itself.
    pub own: Weight,
    /// Amount allocated by the frame and its callees.
    pub sum: Weight,
}

/// A step of a depth-first walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// Before the children of a node.
    Enter(NodeId),
    /// After the children of a node.
    Leave(NodeId),
}

/// Flat and cumulative sums per frame; a recursive frame counts once per stack.
#[derive(Debug, Clone)]
pub struct FrameTotals {
    /// By [`FrameId`]: allocated in the frame itself.
    pub flat: Vec<Weight>,
    /// By [`FrameId`]: allocated in the frame and its callees.
    pub cum: Vec<Weight>,
}

impl CallTree {
    /// Sum of the samples that pass the filter.
    #[must_use]
    pub fn total(&self) -> Weight {
        let sum = self.nodes[0].sum;
        Weight { variance: sum.variance + self.missing.variance, ..sum }
    }

    /// All nodes, the root first, parents before children.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// All nodes but the root, with their ids.
    pub fn frames_in_stacks(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().skip(1).map(|(at, node)| (node_id(at), node))
    }

    /// The node a stack of the profile ends in, unless it was filtered out.
    #[must_use]
    pub(crate) fn node_of(&self, stack: StackId) -> Option<NodeId> {
        let at = self.node_of_stack[stack.index()];
        (at != FILTERED).then_some(NodeId(at))
    }

    /// Frames from a node up to the outermost caller.
    pub fn leaf_to_root(&self, leaf: NodeId) -> impl Iterator<Item = FrameId> + '_ {
        self.ancestors(leaf).map(|id| self.node(id).frame)
    }

    /// A node and its callers, without the root.
    pub fn ancestors(&self, leaf: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let above_root = |id: &NodeId| *id != NodeId::ROOT;
        std::iter::successors(Some(leaf).filter(above_root), move |id| {
            Some(self.node(*id).parent).filter(above_root)
        })
    }

    /// Children of every node, as one array and the start of each node's part of it.
    #[must_use]
    pub fn children(&self) -> Children {
        let mut starts = vec![0_u32; self.nodes.len() + 1];
        for node in &self.nodes[1..] {
            starts[node.parent.index() + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut list = vec![NodeId::ROOT; self.nodes.len() - 1];
        for (id, node) in self.frames_in_stacks() {
            let slot = &mut next[node.parent.index()];
            list[*slot as usize] = id;
            *slot += 1;
        }
        Children { starts, list }
    }

    /// Walks the tree depth first, without the root.
    pub fn walk(&self, mut visit: impl FnMut(Visit)) {
        let children = self.children();
        let mut pending: Vec<Visit> = Vec::new();
        let push_children = |pending: &mut Vec<Visit>, id: NodeId| {
            pending.extend(children.of(id).iter().rev().map(|id| Visit::Enter(*id)));
        };
        push_children(&mut pending, NodeId::ROOT);
        while let Some(step) = pending.pop() {
            visit(step);
            if let Visit::Enter(id) = step {
                pending.push(Visit::Leave(id));
                push_children(&mut pending, id);
            }
        }
    }

    /// Flat and cumulative sums per frame.
    #[must_use]
    pub(crate) fn frame_totals(&self) -> FrameTotals {
        let frames = self.frames.all().len();
        let mut totals =
            FrameTotals { flat: vec![Weight::default(); frames], cum: vec![Weight::default(); frames] };
        let mut open = vec![0_u32; frames];
        self.walk(|step| match step {
            Visit::Enter(id) => {
                let node = self.node(id);
                let frame = node.frame.index();
                totals.flat[frame] += node.own;
                if open[frame] == 0 {
                    totals.cum[frame] += node.sum;
                }
                open[frame] += 1;
            }
            Visit::Leave(id) => open[self.node(id).frame.index()] -= 1,
        });
        totals
    }
}

/// Children of every node of a tree.
#[derive(Debug, Clone)]
pub struct Children {
    starts: Vec<u32>,
    list: Vec<NodeId>,
}

impl Children {
    /// The children of one node.
    #[must_use]
    pub fn of(&self, id: NodeId) -> &[NodeId] {
        let at = id.index();
        &self.list[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

fn node_id(at: usize) -> NodeId {
    NodeId(u32::try_from(at).unwrap_or(u32::MAX))
}
