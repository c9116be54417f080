//! The call graph, pruned to what a person can read.

use rustc_hash::{FxHashMap, FxHashSet};

pub use super::calls::Call;
use super::calls::calls;
use super::top::{descending, ranking, row};
use super::{Row, Totals};
use crate::FrameId;
use crate::call_tree::{CallTree, FrameTotals};
use crate::query::{Order, Prune, Query};

/// Boxes and arrows.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// The whole.
    pub totals: Totals,
    /// Boxes, largest cum first.
    pub nodes: Vec<Row>,
    /// Arrows, largest first.
    pub edges: Vec<Call>,
    /// Omitted nodes and calls.
    pub dropped: Dropped,
}

/// Omitted parts of a graph, and the limits.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Dropped {
    /// Frames without a box.
    pub nodes: usize,
    /// Calls between boxes without an arrow.
    pub edges: usize,
    /// Frames with a cum of at most this were not considered.
    pub node_floor: f64,
    /// Calls of at most this had no chance, unless nothing else led to their callee.
    pub edge_floor: f64,
}

/// The call graph of `tree`: the largest frames by cum, and the calls between them, also across
/// frames that were dropped.
#[must_use]
pub fn graph(tree: &CallTree, query: &Query) -> Graph {
    let totals = tree.frame_totals();
    let total = tree.total().value.abs();
    let prune = &query.prune;
    let mut dropped = Dropped {
        node_floor: (total * prune.nodefraction).floor(),
        edge_floor: (total * prune.edgefraction).floor(),
        ..Dropped::default()
    };
    let kept = select(tree, &totals, prune, &mut dropped);
    let mut place = vec![None; tree.frames.all().len()];
    for (at, id) in kept.iter().enumerate() {
        place[id.index()] = Some(at);
    }
    let edges = choose(calls(tree, &place), prune, &mut dropped);
    Graph {
        totals: Totals::of(tree),
        nodes: kept.iter().map(|id| row(tree, &totals, *id)).collect(),
        edges,
        dropped,
    }
}

fn select(tree: &CallTree, totals: &FrameTotals, prune: &Prune, dropped: &mut Dropped) -> Vec<FrameId> {
    let cum = |id: FrameId| totals.cum[id.index()].value.abs();
    let mut ids = ranking(tree, totals, Order::Cum);
    ids.sort_by(|a, b| descending(cum(*a), cum(*b)));
    let all = ids.len();
    ids.retain(|id| cum(*id) > dropped.node_floor);
    ids.truncate(prune.nodecount);
    dropped.nodes = all - ids.len();
    ids
}

/// Keeps the largest arrows: the first into each box always, others above the floor and within
/// the degree; then drops residual arrows that only repeat a way that is drawn.
fn choose(mut edges: Vec<Call>, prune: &Prune, dropped: &mut Dropped) -> Vec<Call> {
    let all = edges.len();
    edges.sort_by(|a, b| {
        descending(a.weight.value.abs(), b.weight.value.abs())
            .then_with(|| (a.from, a.to).cmp(&(b.from, b.to)))
    });
    let mut out_degree: FxHashMap<usize, usize> = FxHashMap::default();
    let mut in_degree: FxHashMap<usize, usize> = FxHashMap::default();
    edges.retain(|edge| {
        let outgoing = out_degree.entry(edge.from).or_default();
        let incoming = in_degree.entry(edge.to).or_default();
        let room = *outgoing < prune.maxdegree && *incoming < prune.maxdegree;
        let keep = *incoming == 0 || (edge.weight.value.abs() > dropped.edge_floor && room);
        *outgoing += usize::from(keep);
        *incoming += usize::from(keep);
        keep
    });
    drop_redundant(&mut edges);
    dropped.edges = all - edges.len();
    edges
}

/// Removes residual arrows, smallest first, whose callee is reached another way as well.
fn drop_redundant(edges: &mut Vec<Call>) {
    for at in (0..edges.len()).rev() {
        let Call { from, to, residual, .. } = edges[at];
        if residual && connected(edges, from, to, at) {
            edges.remove(at);
        }
    }
}

fn connected(edges: &[Call], from: usize, to: usize, without: usize) -> bool {
    let mut reached = FxHashSet::from_iter([from]);
    let mut pending = vec![from];
    while let Some(here) = pending.pop() {
        if here == to {
            return true;
        }
        for (at, edge) in edges.iter().enumerate() {
            if at != without && edge.from == here && reached.insert(edge.to) {
                pending.push(edge.to);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    fn arrows(graph: &Graph) -> Vec<(&str, &str, f64, bool)> {
        let label = |at: usize| graph.nodes[at].frame.label.as_str();
        let arrows = graph.edges.iter();
        arrows.map(|edge| (label(edge.from), label(edge.to), edge.weight.value, edge.residual)).collect()
    }

    #[test]
    fn dropped_frames_leave_residual_arrows() {
        // `thin` holds as much as nothing itself, and is the fourth by cum.
        let program = profile("main;serve;thin;deep 40 1\nmain;serve;deep 60 1\nmain;other;deep 45 1");
        let query = Query { prune: Prune { nodecount: 3, ..Prune::default() }, ..Query::default() };
        let graph = graph(&CallTree::new(&program, &query), &query);
        assert_eq!(arrows(&graph), [("main", "serve", 100.0, false), ("serve", "deep", 100.0, false)]);
        assert_eq!((graph.dropped.nodes, graph.dropped.edges), (2, 1));
    }

    #[test]
    fn a_residual_arrow_stays_when_it_is_the_only_way() {
        let program = profile("main;thin;deep 40 1\nmain;thin2;deep 40 1");
        let query = Query { prune: Prune { nodecount: 2, ..Prune::default() }, ..Query::default() };
        let graph = graph(&CallTree::new(&program, &query), &query);
        assert_eq!(arrows(&graph), [("main", "deep", 80.0, true)]);
    }

    #[test]
    fn recursion_counts_once_and_small_calls_are_dropped() {
        let program = profile("main;a;b;a;b 1000 1\nmain;b 1 1\nmain;a 9000 1");
        let query = Query::default();
        let graph = graph(&CallTree::new(&program, &query), &query);
        assert_eq!(
            arrows(&graph),
            [("main", "a", 10000.0, false), ("a", "b", 1000.0, false), ("b", "a", 1000.0, false)]
        );
        assert_eq!(graph.dropped.edges, 1);
        assert_eq!(graph.dropped.node_floor, 50.0);
    }
}
