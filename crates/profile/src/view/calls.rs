//! Calls between frames, with what went through them.

use rustc_hash::FxHashMap;

use crate::Weight;
use crate::call_tree::{CallTree, Visit};

/// An arrow from caller to callee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// Index of the caller in its view.
    pub from: usize,
    /// Index of the callee in its view.
    pub to: usize,
    /// Amount allocated through the call.
    pub weight: Weight,
    /// Whether frames between the two were dropped.
    pub residual: bool,
}

/// Calls between the frames that have a place; a call that recurs in a stack counts once, a frame
/// that calls itself gets no arrow.
pub(super) fn calls(tree: &CallTree, place: &[Option<usize>]) -> Vec<Call> {
    let mut edges: Vec<Call> = Vec::new();
    let mut open: Vec<u32> = Vec::new();
    let mut by_ends: FxHashMap<(usize, usize), usize> = FxHashMap::default();
    // For each node on the path: the nearest kept frame, whether something was skipped since, and
    // the edge it opened.
    let mut path: Vec<(Option<usize>, bool, Option<usize>)> = vec![(None, false, None)];
    tree.walk(|step| match step {
        Visit::Enter(id) => {
            let node = tree.node(id);
            let (above, skipped, _) = path[path.len() - 1];
            let Some(here) = place[node.frame.index()] else {
                path.push((above, true, None));
                return;
            };
            let edge = above.filter(|from| *from != here).map(|from| {
                let at = *by_ends.entry((from, here)).or_insert_with(|| {
                    open.push(0);
                    edges.push(Call { from, to: here, weight: Weight::default(), residual: true });
                    edges.len() - 1
                });
                if open[at] == 0 {
                    edges[at].weight += node.sum;
                }
                open[at] += 1;
                edges[at].residual &= skipped;
                at
            });
            path.push((Some(here), false, edge));
        }
        Visit::Leave(_) => {
            if let Some((_, _, Some(edge))) = path.pop() {
                open[edge] -= 1;
            }
        }
    });
    edges
}
