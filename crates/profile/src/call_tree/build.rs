//! From profile to call tree: weigh the stacks, drop those filtered out, name and merge the rest.

use std::sync::Arc;

use super::growing::Growing;
use super::path::{Seen, walk_down};
use super::{CallTree, FILTERED, Missing, Node, NodeId};
use crate::coverage::Coverage;
use crate::frame_table::{FrameId, FrameTable, Steps};
use crate::metric::Unit;
use crate::query::{Granularity, Query};
use crate::unattributed::Causes;
use crate::usable;
use crate::weigh::Weigher;
use crate::{Metric, Profile, Sampling, StackId, Weight};

impl CallTree {
    /// The call tree of `profile` for `query`.
    #[must_use]
    pub fn new(profile: &Profile, query: &Query) -> Self {
        Self::compare(profile, None, query)
    }

    /// The call tree of `profile` minus `base`, matched by frame labels, not by address.
    #[must_use]
    pub fn compare(profile: &Profile, base: Option<&Profile>, query: &Query) -> Self {
        let mut builder = Builder::new(query);
        let mut grand_total = Weight::default();
        if let Some(base) = base {
            let opposite = |weight: Weight| Weight { base: weight.value, ..-weight };
            grand_total += builder.add(base, &opposite).grand_total;
        }
        let mut added = builder.add(profile, &|weight| weight);
        builder.remove_unused(&mut added.node_of_stack);
        let missing = missing(profile, base, query);
        grand_total += added.grand_total;
        grand_total.variance += missing.variance;
        let mut tree = CallTree {
            metric: metric_name(profile, query.metric).to_owned(),
            unit: unit(profile, query.metric),
            frames: builder.frames,
            grand_total,
            compared: base.is_some(),
            usable: query.usable && usable::is_known(profile),
            missing,
            coverage: Arc::new(Coverage::of_metric(profile, query.metric)),
            base_coverage: base.map(|base| Arc::new(Coverage::of_metric(base, query.metric))),
            nodes: builder.tree.nodes,
            node_of_stack: added.node_of_stack,
        };
        tree.sum_up();
        tree
    }

    /// Sums callees into callers; a parent precedes its children, so one backward pass does it.
    pub(super) fn sum_up(&mut self) {
        for node in &mut self.nodes {
            node.sum = node.own;
        }
        for at in (1..self.nodes.len()).rev() {
            let Node { parent, sum, .. } = self.nodes[at];
            self.nodes[parent.index()].sum += sum;
        }
    }
}

/// Result of adding one profile.
struct Added {
    grand_total: Weight,
    node_of_stack: Vec<u32>,
}

struct Builder<'a> {
    query: &'a Query,
    frames: FrameTable,
    tree: Growing,
    /// By node: whether a stack of a sample ends there.
    is_leaf: Vec<bool>,
}

impl<'a> Builder<'a> {
    fn new(query: &'a Query) -> Self {
        Self { query, frames: FrameTable::default(), tree: Growing::new(), is_leaf: Vec::new() }
    }

    fn add(&mut self, profile: &Profile, signed: &dyn Fn(Weight) -> Weight) -> Added {
        let steps = Steps::resolve(profile, self.query, &mut self.frames);
        let mut sums = StackSums::new(profile.stacks.len());
        let mut grand_total = Weight::default();
        let weigher = Weigher::new(profile, self.query.metric, self.query.usable);
        for (at, sample) in profile.samples.iter().enumerate() {
            let weight = signed(weigher.weigh(at));
            grand_total += weight;
            if self.query.filter.passes_thread(profile, sample.thread) {
                sums.add(sample.stack, weight);
            }
        }
        let seen = walk_down(profile, &steps);
        sums.list.retain(|(stack, _)| seen[stack.index()].passes(&self.query.filter));
        let selected = ways_to(profile, &sums.list);
        let node_of_stack = self.grow(profile, &steps, &seen, &selected);
        self.is_leaf.resize(self.tree.nodes.len(), false);
        for (stack, weight) in &sums.list {
            // Stacks whose frames are all hidden end in the root and take no part.
            let node = node_of_stack[stack.index()];
            if node != NodeId::ROOT.0 {
                self.tree.nodes[node as usize].own += *weight;
                self.is_leaf[node as usize] = true;
            }
        }
        Added { grand_total, node_of_stack }
    }

    /// Adds the selected stacks to the tree; returns the node of each. Frames of the runtime at the
    /// leaf give their amounts to their caller.
    fn grow(&mut self, profile: &Profile, steps: &Steps, seen: &[Seen], selected: &[bool]) -> Vec<u32> {
        let stacks = &profile.stacks;
        let mut node_of_stack = vec![FILTERED; stacks.len()];
        let mut last_node = vec![NodeId::ROOT; stacks.len()];
        self.tree.reserve(selected.iter().filter(|selected| **selected).count());
        for stack in stacks.ids().filter(|stack| selected[stack.index()]) {
            let (mut node, mut caller) = (NodeId::ROOT, NodeId::ROOT);
            let mut state = Seen::default();
            if let Some(parent) = stacks.parent(stack) {
                node = last_node[parent.index()];
                caller = NodeId(node_of_stack[parent.index()]);
                state = seen[parent.index()];
            }
            for step in steps.of(stacks.location(stack)) {
                if state.enter(step.flags) && !step.flags.hidden {
                    node = self.child(node, step.frame);
                    // A stack of nothing but runtime is shown as it is.
                    if !step.flags.runtime || caller == NodeId::ROOT {
                        caller = node;
                    }
                }
            }
            last_node[stack.index()] = node;
            node_of_stack[stack.index()] = caller.0;
        }
        node_of_stack
    }

    /// Removes nodes that lead to no sample: the runtime frames that were cut off.
    fn remove_unused(&mut self, node_of_stack: &mut [u32]) {
        let nodes = &mut self.tree.nodes;
        let mut is_used = std::mem::take(&mut self.is_leaf);
        is_used.resize(nodes.len(), false);
        for at in (1..nodes.len()).rev() {
            if is_used[at] {
                is_used[nodes[at].parent.index()] = true;
            }
        }
        let mut place = vec![NodeId::ROOT; nodes.len()];
        let mut kept = 1;
        for at in 1..nodes.len() {
            if is_used[at] {
                place[at] = NodeId(u32::try_from(kept).unwrap_or(u32::MAX));
                nodes[kept] = Node { parent: place[nodes[at].parent.index()], ..nodes[at] };
                kept += 1;
            } else {
                place[at] = place[nodes[at].parent.index()];
            }
        }
        nodes.truncate(kept);
        for node in node_of_stack.iter_mut().filter(|node| **node != FILTERED) {
            *node = place[*node as usize].0;
        }
    }

    fn child(&mut self, parent: NodeId, frame: FrameId) -> NodeId {
        let coarse = matches!(self.query.granularity, Granularity::Files | Granularity::Modules);
        // A call within one file or module does not add a node at that granularity.
        if coarse && parent != NodeId::ROOT && self.tree.nodes[parent.index()].frame == frame {
            return parent;
        }
        self.tree.child(parent, frame)
    }
}

/// Sum of each stack that has samples.
struct StackSums {
    /// Place in `list` of each stack of the profile, plus one; 0 for none.
    place: Vec<u32>,
    list: Vec<(StackId, Weight)>,
}

impl StackSums {
    fn new(stacks: usize) -> Self {
        Self { place: vec![0; stacks], list: Vec::new() }
    }

    fn add(&mut self, stack: StackId, weight: Weight) {
        let place = &mut self.place[stack.index()];
        if *place == 0 {
            self.list.push((stack, Weight::default()));
            *place = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        }
        self.list[*place as usize - 1].1 += weight;
    }
}

/// Which nodes are on the path to one of the stacks.
fn ways_to(profile: &Profile, stacks: &[(StackId, Weight)]) -> Vec<bool> {
    let mut selected = vec![false; profile.stacks.len()];
    for (stack, _) in stacks {
        for node in profile.stacks.leaf_to_root(*stack) {
            if std::mem::replace(&mut selected[node.index()], true) {
                break;
            }
        }
    }
    selected
}

/// Unattributed and untracked memory, in the metric of the query.
fn missing(profile: &Profile, base: Option<&Profile>, query: &Query) -> Missing {
    let mut missing = Missing::default();
    let causes = Causes::of(profile);
    let weigher = Weigher::new(profile, query.metric, query.usable);
    for (at, sample) in profile.samples.iter().enumerate() {
        if let Some(cause) = causes.get(sample.stack) {
            *missing.unattributed.get_mut(cause) += weigher.weigh(at);
        }
    }
    if !query.metric.is_held(profile) {
        return missing;
    }
    missing.untracked_blocks = profile.meta.losses.untracked_blocks;
    missing.untracked_bytes = profile.meta.losses.untracked_bytes;
    for profile in [Some(profile), base].into_iter().flatten() {
        let losses = &profile.meta.losses;
        let untracked = match unit(profile, query.metric) {
            Unit::Bytes => losses.untracked_bytes,
            Unit::Objects => losses.untracked_blocks,
        };
        // Between none and all of them are live: the whole range is within one standard error.
        if profile.meta.sampling != Sampling::Exact {
            missing.variance += (untracked as f64).powi(2);
        }
    }
    missing
}

/// The name of a metric in reports.
#[must_use]
pub(crate) fn metric_name(profile: &Profile, metric: Metric) -> &str {
    match metric {
        Metric::Extra(column) => {
            profile.extra.get(usize::from(column)).map_or(metric.name(), |column| &column.name)
        }
        _ => metric.name(),
    }
}

fn unit(profile: &Profile, metric: Metric) -> Unit {
    match metric {
        Metric::InuseSpace | Metric::AllocSpace => Unit::Bytes,
        Metric::InuseObjects | Metric::AllocObjects => Unit::Objects,
        Metric::Extra(column) => {
            profile.extra.get(usize::from(column)).map_or(Unit::Bytes, |column| column.unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{CallTree, FrameId, Query, fixture};

    /// A signal arrived inside the allocator: what its handler allocates is the handler's.
    #[test]
    fn a_handler_is_no_part_of_the_allocator() {
        let mut profile = fixture::profile("main;work;malloc;inner;handler;keep;malloc 100 1");
        for location in &mut profile.locations {
            let name = &profile.functions[location.lines[0].function.index()].name;
            location.is_return_address = name != "inner";
        }
        let tree = CallTree::new(&profile, &Query::default());
        let totals = tree.frame_totals();
        let flat = |name: &str| {
            let frame = tree.frames.find(name).map(FrameId::index);
            frame.map_or(0.0, |frame| totals.flat[frame].value)
        };
        assert_eq!((flat("keep"), flat("work"), flat("inner")), (100.0, 0.0, 0.0));
    }
}
