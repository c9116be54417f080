//! Other call trees made from one: turned upside down, or seen from one frame.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::growing::Growing;
use super::{CallTree, NodeId, Visit};
use crate::Weight;
use crate::frame_table::FrameId;

impl CallTree {
    /// The same samples with allocating frames at the root and their callers below; only the
    /// `most` widest nodes have their callers.
    #[must_use]
    pub(crate) fn inverted(&self, most: usize) -> CallTree {
        let stacks = self.frames_in_stacks().filter(|(_, node)| !node.own.is_zero());
        self.callers(stacks.map(|(id, node)| Path { next: id, weight: node.own }).collect(), most)
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

    /// The callers of a set of frames: the frames at the root and their callers below; only the
    /// `most` widest nodes have their callers.
    #[must_use]
    pub(crate) fn callers_of(&self, pivot: impl Fn(FrameId) -> bool, most: usize) -> CallTree {
        let mut paths = Vec::new();
        let mut open = 0_u32;
        self.walk(|step| match step {
            Visit::Enter(id) if pivot(self.node(id).frame) => {
                if open == 0 {
                    paths.push(Path { next: id, weight: self.node(id).sum });
                }
                open += 1;
            }
            Visit::Leave(id) if pivot(self.node(id).frame) => open -= 1,
            _ => {}
        });
        self.callers(paths, most)
    }

    /// The tree of these paths, the widest nodes first, so that its size is bounded by `most` and
    /// the number of paths, whatever their length.
    fn callers(&self, mut paths: Vec<Path>, most: usize) -> CallTree {
        let mut image = Image::of(self);
        let mut closed = BinaryHeap::from([Closed::new(NodeId::ROOT, 0..paths.len(), &paths)]);
        // The root is one more.
        for _ in 0..=most {
            let Some(Closed { node, paths: range, .. }) = closed.pop() else { break };
            let mut start = range.start;
            paths[range.clone()].sort_by_key(|path| self.node(path.next).frame);
            while start < range.end {
                let caller = self.node(paths[start].next).frame;
                let same = |path: &&mut Path| self.node(path.next).frame == caller;
                let mut end = start;
                let is_root = paths[start].next == NodeId::ROOT;
                for path in paths[start..range.end].iter_mut().take_while(same) {
                    path.next = self.node(path.next).parent;
                    end += 1;
                }
                if is_root {
                    image.add(node, &paths[start..end]);
                } else {
                    closed.push(Closed::new(image.tree.child(node, caller), start..end, &paths));
                }
                start = end;
            }
        }
        for Closed { node, paths: range, .. } in closed {
            image.add(node, &paths[range]);
        }
        image.finish()
    }
}

/// A weight and the next frame on its way to the root.
struct Path {
    next: NodeId,
    weight: Weight,
}

/// A node without its callers yet.
struct Closed {
    width: f64,
    node: NodeId,
    paths: Range<usize>,
}

impl Closed {
    fn new(node: NodeId, range: Range<usize>, paths: &[Path]) -> Self {
        let width = |Path { weight, .. }: &Path| (weight.value + weight.base).max(weight.base).max(0.0);
        Self { width: paths[range.clone()].iter().map(width).sum(), node, paths: range }
    }
}

impl Ord for Closed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.width.total_cmp(&other.width).then(other.node.0.cmp(&self.node.0))
    }
}

impl PartialOrd for Closed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Closed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Closed {}

/// A tree that takes its frames from another one.
struct Image<'a> {
    source: &'a CallTree,
    tree: Growing,
}

impl<'a> Image<'a> {
    fn of(source: &'a CallTree) -> Self {
        Self { source, tree: Growing::new() }
    }

    /// Adds the weight of paths that end at `node`.
    fn add(&mut self, node: NodeId, paths: &[Path]) {
        let own = &mut self.tree.nodes[node.index()].own;
        for path in paths {
            *own += path.weight;
        }
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
