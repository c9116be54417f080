//! Which threads allocate, when there is more than one.

use super::{Evidence, percent};
use crate::finding::{Finding, FindingClass, FindingKind, FindingRow};

/// Threads shown.
const MOST_THREADS: usize = 5;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let threads = &evidence.statistics.threads;
    let mut order: Vec<usize> = (0..threads.len()).filter(|number| threads[*number].allocs > 0).collect();
    if order.len() < 2 {
        return None;
    }
    let total: u64 = threads.iter().map(|thread| thread.allocs).sum();
    order.sort_by_key(|number| std::cmp::Reverse(threads[*number].allocs));
    let rows = order.iter().take(MOST_THREADS).map(|number| {
        let (sums, record) = (&threads[*number], evidence.tables.threads.get(*number));
        let (tid, name) = record.map_or((0, ""), |thread| (thread.tid, thread.name.as_str()));
        FindingRow {
            class: FindingClass::Thread(tid, name.to_owned()),
            blocks: sums.allocs,
            percent: percent(sums.allocs, total),
            bytes: Some(sums.alloc_bytes),
        }
    });
    Some(Finding {
        kind: FindingKind::Threads,
        values: vec![("threads", order.len() as f64), ("blocks", total as f64)],
        places: Vec::new(),
        rows: rows.collect(),
    })
}
