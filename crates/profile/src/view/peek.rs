//! A frame between its callers and its callees: `tree` for the largest, `peek` for those named.

use rustc_hash::{FxHashMap, FxHashSet};

use super::calls::{Call, calls};
use super::top::{descending, ranking, row};
use super::{Row, Totals};
use crate::call_tree::{CallTree, FrameTotals};
use crate::query::{Prune, Query, Regex};
use crate::{FrameId, Weight};

/// Frames with their callers and callees.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbourhoods {
    /// The whole.
    pub totals: Totals,
    /// One entry per frame, in rank order.
    pub entries: Vec<Neighbourhood>,
    /// Frames left out by limit and pruning.
    pub dropped: usize,
}

/// A frame, its callers and its callees.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbourhood {
    /// The frame itself.
    pub row: Row,
    /// Callers, largest contribution first.
    pub callers: Vec<Neighbour>,
    /// Callees, largest contribution first.
    pub callees: Vec<Neighbour>,
}

/// The other end of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbour {
    /// Its label.
    pub label: String,
    /// Amount allocated through the call.
    pub weight: Weight,
}

/// The largest frames with their callers and callees, pruned like a graph.
#[must_use]
pub fn tree(tree: &CallTree, query: &Query) -> Neighbourhoods {
    let totals = tree.frame_totals();
    let floor = (tree.total().value * query.prune.nodefraction).abs();
    let ranked = ranking(tree, &totals, query.order);
    let limit = query.limit.unwrap_or(query.prune.nodecount);
    let shown: Vec<FrameId> =
        ranked.iter().copied().filter(|id| totals.cum[id.index()].value.abs() > floor).take(limit).collect();
    let dropped = ranked.len() - shown.len();
    neighbourhoods(tree, &totals, &shown, &query.prune, dropped)
}

/// The frames whose label matches, with all their callers and callees.
#[must_use]
pub fn peek(tree: &CallTree, pattern: &Regex, query: &Query) -> Neighbourhoods {
    let totals = tree.frame_totals();
    let mut shown = ranking(tree, &totals, query.order);
    shown.retain(|id| pattern.is_match(&tree.frames.get(*id).label));
    let limit = query.limit.unwrap_or(usize::MAX).min(shown.len());
    let dropped = shown.len() - limit;
    shown.truncate(limit);
    neighbourhoods(tree, &totals, &shown, &Prune::NOTHING, dropped)
}

fn neighbourhoods(
    tree: &CallTree,
    totals: &FrameTotals,
    shown: &[FrameId],
    prune: &Prune,
    dropped: usize,
) -> Neighbourhoods {
    let every: Vec<Option<usize>> = (0..tree.frames.all().len()).map(Some).collect();
    let floor = (tree.total().value * prune.edgefraction).abs();
    let mut callers: FxHashMap<usize, Vec<Neighbour>> = FxHashMap::default();
    let mut callees: FxHashMap<usize, Vec<Neighbour>> = FxHashMap::default();
    let neighbour =
        |at: usize, weight: Weight| Neighbour { label: tree.frames.all()[at].label.clone(), weight };
    let wanted: FxHashSet<usize> = shown.iter().map(|id| id.index()).collect();
    for call in calls(tree, &every) {
        let Call { from, to, weight, .. } = call;
        if weight.value.abs() <= floor {
            continue;
        }
        if wanted.contains(&to) {
            callers.entry(to).or_default().push(neighbour(from, weight));
        }
        if wanted.contains(&from) {
            callees.entry(from).or_default().push(neighbour(to, weight));
        }
    }
    let entries = shown.iter().map(|id| Neighbourhood {
        row: row(tree, totals, *id),
        callers: sorted(callers.remove(&id.index())),
        callees: sorted(callees.remove(&id.index())),
    });
    Neighbourhoods { totals: Totals::of(tree), entries: entries.collect(), dropped }
}

fn sorted(neighbours: Option<Vec<Neighbour>>) -> Vec<Neighbour> {
    let mut neighbours = neighbours.unwrap_or_default();
    neighbours.sort_by(|a, b| {
        descending(a.weight.value.abs(), b.weight.value.abs()).then_with(|| a.label.cmp(&b.label))
    });
    neighbours
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    #[test]
    fn callers_and_callees_of_one_frame() {
        let program = profile("main;a;f;g 10 1\nmain;b;f 20 1\nmain;b;f;g 5 1\nmain;f;f;b;f 1 1");
        let query = Query::default();
        let view = peek(&CallTree::new(&program, &query), &Regex::new("^f$").unwrap(), &query);
        let [entry] = &view.entries[..] else {
            panic!("one frame matches");
        };
        assert_eq!((entry.row.flat.value, entry.row.cum.value), (21.0, 36.0));
        let pairs = |neighbours: &[Neighbour]| -> Vec<(String, f64)> {
            let pairs = neighbours.iter().map(|n| (n.label.clone(), n.weight.value));
            pairs.collect()
        };
        let expected = [("b", 26.0), ("a", 10.0), ("main", 1.0)].map(|(n, v)| (n.to_owned(), v));
        assert_eq!(pairs(&entry.callers), expected);
        let expected = [("g", 15.0), ("b", 1.0)].map(|(n, v)| (n.to_owned(), v));
        assert_eq!(pairs(&entry.callees), expected);
    }

    #[test]
    fn the_tree_leaves_out_what_is_small() {
        let program = profile("main;a 1000 1\nmain;tiny 4 1\nmain;b 500 1");
        let query = Query::default();
        let view = tree(&CallTree::new(&program, &query), &query);
        let names: Vec<_> = view.entries.iter().map(|entry| entry.row.frame.label.as_str()).collect();
        assert_eq!(names, ["a", "b", "main"]);
        assert_eq!(view.dropped, 1);
    }
}
