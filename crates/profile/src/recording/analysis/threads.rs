//! Which threads allocate, when there is more than one.

use super::{Evidence, Finding, percent};

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
    let lines = order.iter().take(MOST_THREADS).map(|number| {
        let (sums, record) = (&threads[*number], evidence.tables.threads.get(*number));
        let (tid, name) = record.map_or((0, ""), |thread| (thread.tid, thread.name.as_str()));
        format!(
            "{tid:>8} {name:<16} {:>12} blocks {:5.1} % {:>16} bytes",
            sums.allocs,
            percent(sums.allocs, total),
            sums.alloc_bytes
        )
    });
    Some(Finding {
        name: "threads",
        headline: format!("{} threads allocated {total} blocks", order.len()),
        places: Vec::new(),
        lines: lines.collect(),
        next: "heapwise threads --alloc_space FILE",
    })
}
