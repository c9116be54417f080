//! Other call trees made from one: turned upside down, or seen from one frame.

use super::growing::Growing;
use super::{CallTree, NodeId, Visit};
use crate::Weight;
use crate::frame_table::FrameId;

impl CallTree {
    /// The same samples with allocating frames at the root and their callers below.
    #[must_use]
    pub fn inverted(&self) -> CallTree {
        let mut image = Image::of(self);
        for (id, node) in self.frames_in_stacks() {
            if !node.own.is_zero() {
                image.add_path(self.leaf_to_root(id), node.own);
            }
        }
        image.finish()
    }

    /// What a set of frames and their callees allocated, the frames at the root. A recursive call
    /// belongs to its outermost one.
    #[must_use]
    pub(crate) fn callees_of(&self, pivot: impl Fn(FrameId) -> bool) -> CallTree {
        let mut image = Image::of(self);
        let mut copies: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        for (id, node) in self.frames_in_stacks() {
            let above = copies[node.parent.index()];
            if above.is_some() || pivot(node.frame) {
                let copy = image.tree.child(above.unwrap_or(NodeId::ROOT), node.frame);
                image.tree.nodes[copy.index()].own += node.own;
                copies[id.index()] = Some(copy);
            }
        }
        image.finish()
    }

    /// The callers of a set of frames: the frames at the root and their callers below.
    #[must_use]
    pub(crate) fn callers_of(&self, pivot: impl Fn(FrameId) -> bool) -> CallTree {
        let mut image = Image::of(self);
        let mut open = 0_u32;
        self.walk(|step| match step {
            Visit::Enter(id) if pivot(self.node(id).frame) => {
                if open == 0 {
                    image.add_path(self.leaf_to_root(id), self.node(id).sum);
                }
                open += 1;
            }
            Visit::Leave(id) if pivot(self.node(id).frame) => open -= 1,
            _ => {}
        });
        image.finish()
    }
}

/// A tree that takes its frames from another one.
struct Image<'a> {
    source: &'a CallTree,
    tree: Growing,
}

impl<'a> Image<'a> {
    fn of(source: &'a CallTree) -> Self {
        Self { source, tree: Growing::new() }
    }

    fn add_path(&mut self, path: impl Iterator<Item = FrameId>, weight: Weight) {
        let end = path.fold(NodeId::ROOT, |node, frame| self.tree.child(node, frame));
        self.tree.nodes[end.index()].own += weight;
    }

    fn finish(self) -> CallTree {
        let mut tree = CallTree {
            metric: self.source.metric.clone(),
            unit: self.source.unit,
            frames: self.source.frames.clone(),
            grand_total: self.source.grand_total,
            compared: self.source.compared,
            usable: self.source.usable,
            missing: self.source.missing,
            coverage: self.source.coverage.clone(),
            base_coverage: self.source.base_coverage.clone(),
            nodes: self.tree.nodes,
            node_of_stack: Vec::new(),
        };
        tree.sum_up();
        tree
    }
}
