//! Bounds of every answer: rows, stacks, boxes. The answer has the number of omitted ones.

use heapwise_profile::Query;
use heapwise_profile::view::flame::Detail;
use heapwise_profile::view::peek::Neighbourhoods;
use heapwise_profile::view::traces::StackLimit;

/// Rows of a table.
pub(crate) const MOST_ROWS: usize = 5_000;
/// Sites of the view of live memory.
const MOST_SITES: usize = 200;
/// Callers and callees of one function.
const MOST_NEIGHBORS: usize = 100;
/// Stacks of one site, and frames of all stacks of an answer.
pub(crate) const STACKS: StackLimit = StackLimit { per_group: 12, frames: 20_000, ..StackLimit::NONE };
/// Boxes of a flame graph.
const MOST_BOXES: usize = 100_000;

/// The detail of a flame graph with boxes of at least this share.
pub(crate) fn flame_detail(min_share: f64) -> Detail {
    Detail { min_share, most_boxes: MOST_BOXES }
}

/// The query of a table.
pub(crate) fn rows(query: &Query) -> Query {
    limited(query, MOST_ROWS)
}

/// The query of a list of sites.
pub(crate) fn sites(query: &Query) -> Query {
    limited(query, MOST_SITES)
}

fn limited(query: &Query, most: usize) -> Query {
    Query { limit: Some(query.limit.map_or(most, |limit| limit.min(most))), ..query.clone() }
}

/// Without the smallest callers and callees.
pub(crate) fn neighbors(mut view: Neighbourhoods) -> Neighbourhoods {
    for entry in &mut view.entries {
        entry.callers.truncate(MOST_NEIGHBORS);
        entry.callees.truncate(MOST_NEIGHBORS);
    }
    view
}
