//! Allocations by thread.

use super::Totals;
use super::top::descending;
use crate::call_tree::{CallTree, NodeId};
use crate::weigh::Weigher;
use crate::{Profile, Query, ThreadId, Weight};

/// Threads, largest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Threads {
    /// The whole.
    pub totals: Totals,
    /// One per thread that allocated.
    pub rows: Vec<ThreadRow>,
}

/// Allocations of one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRow {
    /// Its number; `None` for what the source does not attribute.
    pub tid: Option<u64>,
    /// Its name, possibly empty.
    pub name: String,
    /// Its allocations.
    pub weight: Weight,
}

/// Allocations of each thread of `profile`, under the filter of `query`.
#[must_use]
pub fn threads(profile: &Profile, query: &Query) -> Threads {
    let tree = CallTree::new(profile, query);
    let mut sums: Vec<Option<Weight>> = vec![None; profile.threads.len() + 1];
    let nobody = profile.threads.len();
    let weigher = Weigher::new(profile, query.metric, query.usable);
    for (at, sample) in profile.samples.iter().enumerate() {
        let in_tree = tree.node_of(sample.stack).is_some_and(|id| id != NodeId::ROOT);
        if in_tree && query.filter.passes_thread(profile, sample.thread) {
            let slot = sample.thread.map_or(nobody, ThreadId::index);
            *sums[slot].get_or_insert_with(Weight::default) += weigher.weigh(at);
        }
    }
    let mut rows: Vec<ThreadRow> = sums
        .into_iter()
        .enumerate()
        .filter_map(|(at, weight)| {
            let thread = profile.threads.get(at);
            Some(ThreadRow {
                tid: thread.map(|thread| thread.tid),
                name: thread.map_or_else(String::new, |thread| thread.name.clone()),
                weight: weight?,
            })
        })
        .collect();
    rows.sort_by(|a, b| descending(a.weight.value, b.weight.value).then_with(|| a.tid.cmp(&b.tid)));
    rows.truncate(query.limit.unwrap_or(usize::MAX));
    Threads { totals: Totals::of(&tree), rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    #[test]
    fn threads_are_ranked_and_strays_kept() {
        let program = profile("main;f 4 1 7\nmain;g 6 1 8\nmain;f 5 1 7\nmain;f 1 1");
        let rows: Vec<_> = threads(&program, &Query::default())
            .rows
            .into_iter()
            .map(|row| (row.tid, row.name, row.weight.value))
            .collect();
        let expected = [(Some(7), "worker-7", 9.0), (Some(8), "worker-8", 6.0), (None, "", 1.0)];
        assert_eq!(rows, expected.map(|(tid, name, value)| (tid, name.to_owned(), value)));
    }
}
