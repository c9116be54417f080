//! Allocating source lines alone, including those that hold nothing any more.

use rustc_hash::{FxHashMap, FxHashSet};

use super::top::{descending, row};
use super::{Row, Totals};
use crate::call_tree::{CallTree, NodeId};
use crate::{FrameId, Profile, Query, Weight};

/// Allocating lines, largest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Sites {
    /// The whole.
    pub totals: Totals,
    /// One per line that allocated; `flat` is its amount.
    pub rows: Vec<Row>,
}

/// The lines that the samples of `profile` belong to, according to `tree` (made from it with
/// `query`): of each stack the innermost frame that has a source line, or else the innermost frame.
/// `zero` keeps lines whose blocks are all freed.
#[must_use]
pub fn sites(profile: &Profile, tree: &CallTree, query: &Query, zero: bool) -> Sites {
    let totals = tree.frame_totals();
    let has_line = |frame: &FrameId| {
        let frame = tree.frames.get(*frame);
        !frame.file.is_empty() && frame.line > 0
    };
    let line_of = |id: NodeId| tree.leaf_to_root(id).find(has_line).unwrap_or(tree.node(id).frame);
    let ends = profile.samples.iter().filter_map(|sample| tree.node_of(sample.stack));
    let ends: FxHashSet<NodeId> = ends.filter(|id| *id != NodeId::ROOT).collect();
    let mut amounts: FxHashMap<FrameId, Weight> = FxHashMap::default();
    for (id, node) in tree.frames_in_stacks() {
        if ends.contains(&id) || !node.own.is_zero() {
            *amounts.entry(line_of(id)).or_default() += node.own;
        }
    }
    let mut rows: Vec<Row> = amounts
        .into_iter()
        .map(|(id, flat)| Row { flat, ..row(tree, &totals, id) })
        .filter(|row| zero || row.flat.value != 0.0)
        .collect();
    rows.sort_by(|a, b| {
        descending(a.flat.value, b.flat.value).then_with(|| a.frame.label.cmp(&b.frame.label))
    });
    rows.truncate(query.limit.unwrap_or(usize::MAX));
    Sites { totals: Totals::of(tree), rows }
}
