//! A call tree under construction: nodes with their sums, and the child of a node by its frame.

use super::{Node, NodeId};
use crate::Weight;
use crate::child_table::ChildTable;
use crate::frame_table::FrameId;

pub(super) struct Growing {
    pub(super) nodes: Vec<Node>,
    children: ChildTable<FrameId>,
}

impl Growing {
    /// A tree with only its root.
    pub(super) fn new() -> Self {
        let no_frame = FrameId(u32::MAX);
        let root =
            Node { parent: NodeId::ROOT, frame: no_frame, own: Weight::default(), sum: Weight::default() };
        Self { nodes: vec![root], children: ChildTable::new(no_frame) }
    }

    /// Makes room for this many more nodes.
    pub(super) fn reserve(&mut self, more: usize) {
        self.nodes.reserve(more);
        self.children.reserve(more);
    }

    /// The node of `frame` called from `parent`, new or known.
    pub(super) fn child(&mut self, parent: NodeId, frame: FrameId) -> NodeId {
        let child = NodeId(self.children.child(parent.0, frame));
        if child.index() == self.nodes.len() {
            self.nodes.push(Node { parent, frame, own: Weight::default(), sum: Weight::default() });
        }
        child
    }
}
