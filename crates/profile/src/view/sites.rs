//! Allocating frames alone, including those that hold nothing any more.

use rustc_hash::FxHashSet;

use super::top::{descending, row};
use super::{Row, Totals};
use crate::call_tree::{CallTree, NodeId};
use crate::{FrameId, Profile, Query};

/// Allocating frames, largest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Sites {
    /// The whole.
    pub totals: Totals,
    /// One per frame that allocated.
    pub rows: Vec<Row>,
}

/// The frames in which the samples of `profile` end, according to `tree` (made from it with
/// `query`); `zero` keeps those whose blocks are all freed.
#[must_use]
pub fn sites(profile: &Profile, tree: &CallTree, query: &Query, zero: bool) -> Sites {
    let totals = tree.frame_totals();
    let ends = profile.samples.iter().filter_map(|sample| tree.node_of(sample.stack));
    let frames: FxHashSet<FrameId> =
        ends.filter(|id| *id != NodeId::ROOT).map(|id| tree.node(id).frame).collect();
    let mut rows: Vec<Row> = frames
        .into_iter()
        .map(|id| row(tree, &totals, id))
        .filter(|row| zero || row.flat.value != 0.0)
        .collect();
    rows.sort_by(|a, b| {
        descending(a.flat.value, b.flat.value).then_with(|| a.frame.label.cmp(&b.frame.label))
    });
    rows.truncate(query.limit.unwrap_or(usize::MAX));
    Sites { totals: Totals::of(tree), rows }
}
