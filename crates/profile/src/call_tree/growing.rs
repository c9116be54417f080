//! A call tree under construction: nodes, and the child of a node by its frame.
//!
//! Most nodes have a handful of children, which are found by walking their list; only the children
//! of crowded nodes are hashed. A million nodes are laid down without a million hash entries.

use rustc_hash::FxHashMap;

use super::{Node, NodeId, node_id};
use crate::Weight;
use crate::frame_table::FrameId;

/// Children beyond which a node's are hashed.
const FEW: u32 = 8;
const NONE: u32 = u32::MAX;

pub(super) struct Growing {
    pub(super) nodes: Vec<Node>,
    families: Vec<Family>,
    crowded: FxHashMap<(NodeId, FrameId), NodeId>,
}

/// The links of one node, kept apart from its sums so that a walk touches little memory.
#[derive(Clone, Copy)]
struct Family {
    frame: FrameId,
    youngest_child: u32,
    elder_sibling: u32,
    children: u32,
}

impl Growing {
    /// A tree with only its root.
    pub(super) fn new() -> Self {
        let mut growing = Self { nodes: Vec::new(), families: Vec::new(), crowded: FxHashMap::default() };
        growing.push(NodeId::ROOT, FrameId(NONE));
        growing
    }

    /// Makes room for this many more nodes.
    pub(super) fn reserve(&mut self, more: usize) {
        self.nodes.reserve(more);
        self.families.reserve(more);
    }

    /// The node of `frame` called from `parent`, new or known.
    pub(super) fn child(&mut self, parent: NodeId, frame: FrameId) -> NodeId {
        let family = self.families[parent.index()];
        let known = if family.children > FEW {
            self.crowded.get(&(parent, frame)).copied()
        } else {
            self.children(parent).find(|child| self.families[child.index()].frame == frame)
        };
        known.unwrap_or_else(|| self.add_child(parent, frame))
    }

    fn children(&self, parent: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let some = |at: u32| (at != NONE).then_some(NodeId(at));
        std::iter::successors(some(self.families[parent.index()].youngest_child), move |child| {
            some(self.families[child.index()].elder_sibling)
        })
    }

    fn add_child(&mut self, parent: NodeId, frame: FrameId) -> NodeId {
        let id = self.push(parent, frame);
        let family = &mut self.families[parent.index()];
        let elder = std::mem::replace(&mut family.youngest_child, id.0);
        family.children += 1;
        let children = family.children;
        self.families[id.index()].elder_sibling = elder;
        if children == FEW + 1 {
            let all: Vec<NodeId> = self.children(parent).collect();
            let key = |child: NodeId| (parent, self.families[child.index()].frame);
            self.crowded.extend(all.into_iter().map(|child| (key(child), child)));
        } else if children > FEW {
            self.crowded.insert((parent, frame), id);
        }
        id
    }

    fn push(&mut self, parent: NodeId, frame: FrameId) -> NodeId {
        self.families.push(Family { frame, youngest_child: NONE, elder_sibling: NONE, children: 0 });
        self.nodes.push(Node { parent, frame, own: Weight::default(), sum: Weight::default() });
        node_id(self.nodes.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_again_however_many_there_are() {
        let mut tree = Growing::new();
        let caller = tree.child(NodeId::ROOT, FrameId(7));
        let first: Vec<NodeId> = (0..40).map(|frame| tree.child(caller, FrameId(frame))).collect();
        let again: Vec<NodeId> = (0..40).map(|frame| tree.child(caller, FrameId(frame))).collect();
        assert_eq!(first, again);
        assert_eq!(tree.child(NodeId::ROOT, FrameId(7)), caller);
        assert_eq!(tree.nodes.len(), 42);
    }
}
