//! Other call trees made from one: turned upside down, or seen from one frame.

use rustc_hash::FxHashMap;

use super::{CallTree, Node, NodeId, Visit, node_id};
use crate::Weight;
use crate::frame_table::FrameId;

impl CallTree {
    /// The same samples with allocating frames at the root and their callers below.
    #[must_use]
    pub fn inverted(&self) -> CallTree {
        let mut tree = Growing::new(self);
        for (id, node) in self.frames_in_stacks() {
            if !node.own.is_zero() {
                tree.add_path(self.leaf_to_root(id), node.own);
            }
        }
        tree.finish()
    }

    /// What a set of frames and their callees allocated, the frames at the root. A recursive call
    /// belongs to its outermost one.
    #[must_use]
    pub fn callees_of(&self, pivot: impl Fn(FrameId) -> bool) -> CallTree {
        let mut tree = Growing::new(self);
        let mut images: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        for (id, node) in self.frames_in_stacks() {
            let above = images[node.parent.index()];
            if above.is_some() || pivot(node.frame) {
                let image = tree.child(above.unwrap_or(NodeId::ROOT), node.frame);
                tree.nodes[image.index()].own += node.own;
                images[id.index()] = Some(image);
            }
        }
        tree.finish()
    }

    /// Who called a set of frames, the frames at the root and their callers below.
    #[must_use]
    pub fn callers_of(&self, pivot: impl Fn(FrameId) -> bool) -> CallTree {
        let mut tree = Growing::new(self);
        let mut open = 0_u32;
        self.walk(|step| match step {
            Visit::Enter(id) if pivot(self.node(id).frame) => {
                if open == 0 {
                    tree.add_path(self.leaf_to_root(id), self.node(id).sum);
                }
                open += 1;
            }
            Visit::Leave(id) if pivot(self.node(id).frame) => open -= 1,
            _ => {}
        });
        tree.finish()
    }
}

/// A tree that takes its frames from another one.
struct Growing<'a> {
    source: &'a CallTree,
    nodes: Vec<Node>,
    by_caller: FxHashMap<(NodeId, FrameId), NodeId>,
}

impl<'a> Growing<'a> {
    fn new(source: &'a CallTree) -> Self {
        let mut root = source.nodes[0];
        root.own = Weight::default();
        Self { source, nodes: vec![root], by_caller: FxHashMap::default() }
    }

    fn child(&mut self, parent: NodeId, frame: FrameId) -> NodeId {
        let nodes = &mut self.nodes;
        *self.by_caller.entry((parent, frame)).or_insert_with(|| {
            nodes.push(Node { parent, frame, own: Weight::default(), sum: Weight::default() });
            node_id(nodes.len() - 1)
        })
    }

    fn add_path(&mut self, path: impl Iterator<Item = FrameId>, weight: Weight) {
        let end = path.fold(NodeId::ROOT, |node, frame| self.child(node, frame));
        self.nodes[end.index()].own += weight;
    }

    fn finish(self) -> CallTree {
        let mut tree = CallTree {
            metric: self.source.metric.clone(),
            unit: self.source.unit,
            frames: self.source.frames.clone(),
            grand_total: self.source.grand_total,
            compared: self.source.compared,
            nodes: self.nodes,
            node_of_stack: Vec::new(),
        };
        tree.sum_up();
        tree
    }
}
