//! From profile to call tree: weigh the stacks, drop those filtered out, name and merge the rest.

use rustc_hash::FxHashMap;

use super::{CallTree, FILTERED, Node, NodeId, node_id};
use crate::frame_table::{FrameId, FrameTable, Steps, Verdict};
use crate::metric::Unit;
use crate::query::{Granularity, Query};
use crate::{Metric, Profile, Sample, Weight};

impl CallTree {
    /// The call tree of `profile` as `query` wants it.
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
        let added = builder.add(profile, &|weight| weight);
        let mut tree = CallTree {
            metric: metric_name(profile, query.metric).to_owned(),
            unit: unit(profile, query.metric),
            frames: builder.frames,
            grand_total: grand_total + added.grand_total,
            compared: base.is_some(),
            nodes: builder.nodes,
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

/// What adding one profile yields.
struct Added {
    grand_total: Weight,
    node_of_stack: Vec<u32>,
}

struct Builder<'a> {
    query: &'a Query,
    frames: FrameTable,
    nodes: Vec<Node>,
    by_caller: FxHashMap<(NodeId, FrameId), NodeId>,
}

impl<'a> Builder<'a> {
    fn new(query: &'a Query) -> Self {
        Self {
            query,
            frames: FrameTable::default(),
            nodes: vec![Node {
                parent: NodeId::ROOT,
                frame: FrameId(u32::MAX),
                own: Weight::default(),
                sum: Weight::default(),
            }],
            by_caller: FxHashMap::default(),
        }
    }

    fn add(&mut self, profile: &Profile, signed: &dyn Fn(Weight) -> Weight) -> Added {
        let steps = Steps::resolve(profile, self.query, &mut self.frames);
        let mut weights = vec![None; profile.stacks.len()];
        let mut grand_total = Weight::default();
        for (at, sample) in profile.samples.iter().enumerate() {
            let weight = signed(weigh(profile, at, sample, self.query.metric));
            grand_total += weight;
            if self.query.filter.passes_thread(profile, sample.thread) {
                *weights[sample.stack.index()].get_or_insert_with(Weight::default) += weight;
            }
        }
        let seen = walk_down(profile, &steps);
        let selected = self.select(profile, &seen, &mut weights);
        let node_of_stack = self.grow(profile, &steps, &seen, &selected);
        for (at, weight) in weights.iter().enumerate() {
            // Stacks whose frames are all hidden end in the root and take no part.
            let node = node_of_stack[at];
            if let Some(weight) = weight
                && node != FILTERED
                && node != 0
            {
                self.nodes[node as usize].own += *weight;
            }
        }
        Added { grand_total, node_of_stack }
    }

    /// Clears the weights of stacks that focus and ignore exclude; returns which nodes lie on the
    /// way to a stack that is left.
    fn select(&self, profile: &Profile, seen: &[Seen], weights: &mut [Option<Weight>]) -> Vec<bool> {
        let stacks = &profile.stacks;
        let wants_focus = self.query.filter.focus.is_some();
        let mut selected = vec![false; stacks.len()];
        for stack in stacks.ids().rev() {
            let at = stack.index();
            if seen[at].ignore || (wants_focus && !seen[at].focus) {
                weights[at] = None;
            }
            selected[at] |= weights[at].is_some();
            if let (true, Some(parent)) = (selected[at], stacks.parent(stack)) {
                selected[parent.index()] = true;
            }
        }
        selected
    }

    /// Adds the selected stacks to the tree; returns the node of each.
    fn grow(&mut self, profile: &Profile, steps: &Steps, seen: &[Seen], selected: &[bool]) -> Vec<u32> {
        let stacks = &profile.stacks;
        let mut node_of_stack = vec![FILTERED; stacks.len()];
        for stack in stacks.ids().filter(|stack| selected[stack.index()]) {
            let mut node = NodeId::ROOT;
            let mut state = Seen::default();
            if let Some(parent) = stacks.parent(stack) {
                node = NodeId(node_of_stack[parent.index()]);
                state = seen[parent.index()];
            }
            for step in steps.of(stacks.location(stack)) {
                if state.enter(step.verdict) && !step.verdict.hidden {
                    node = self.child(node, step.frame);
                }
            }
            node_of_stack[stack.index()] = node.0;
        }
        node_of_stack
    }

    fn child(&mut self, parent: NodeId, frame: FrameId) -> NodeId {
        let coarse = matches!(self.query.granularity, Granularity::Files | Granularity::Modules);
        // A call within one file or module is no step at that granularity.
        if coarse && parent != NodeId::ROOT && self.nodes[parent.index()].frame == frame {
            return parent;
        }
        let nodes = &mut self.nodes;
        *self.by_caller.entry((parent, frame)).or_insert_with(|| {
            nodes.push(Node { parent, frame, own: Weight::default(), sum: Weight::default() });
            node_id(nodes.len() - 1)
        })
    }
}

/// What has been met on the way from the root to a stack node.
#[derive(Clone, Copy, Default)]
struct Seen {
    focus: bool,
    ignore: bool,
    cut: bool,
    has_caller: bool,
}

impl Seen {
    /// Goes one frame leafward; returns whether the frame is outside the allocator. An allocator
    /// frame that nobody called stays: it is all there is to show.
    fn enter(&mut self, verdict: Verdict) -> bool {
        self.cut |= verdict.allocator && self.has_caller;
        self.has_caller = true;
        if !self.cut {
            self.focus |= verdict.focus;
            self.ignore |= verdict.ignore;
        }
        !self.cut
    }
}

/// The state after every stack node; callers come before callees.
fn walk_down(profile: &Profile, steps: &Steps) -> Vec<Seen> {
    let stacks = &profile.stacks;
    let mut seen = vec![Seen::default(); stacks.len()];
    for stack in stacks.ids() {
        let mut state = stacks.parent(stack).map_or_else(Seen::default, |parent| seen[parent.index()]);
        for step in steps.of(stacks.location(stack)) {
            state.enter(step.verdict);
        }
        seen[stack.index()] = state;
    }
    seen
}

/// The weight of the `at`-th sample.
pub(crate) fn weigh(profile: &Profile, at: usize, sample: &Sample, metric: Metric) -> Weight {
    let objects = match metric {
        Metric::InuseSpace | Metric::InuseObjects | Metric::Extra(_) => Metric::InuseObjects,
        Metric::AllocSpace | Metric::AllocObjects => Metric::AllocObjects,
    };
    let value = match metric {
        Metric::Extra(column) => profile
            .extra
            .get(usize::from(column))
            .and_then(|column| column.values.get(at))
            .copied()
            .unwrap_or_default(),
        _ => sample.values.get(metric),
    };
    Weight { value, variance: sample.variance.get(metric), objects: sample.values.get(objects), base: 0.0 }
}

/// The name a metric goes by in reports.
#[must_use]
pub fn metric_name(profile: &Profile, metric: Metric) -> &str {
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
