//! Temporary blocks: allocated and freed by one thread with no other allocation or free of that thread in
//! between, within a millisecond. Such a block could live on the stack or be kept for reuse.

use super::{Evidence, Finding, PlaceUnit, percent};

/// Worth saying from this share of all allocations on, in percent.
const LEAST_PERCENT: f64 = 5.0;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let temporary = evidence.sum(|site| site.events.temporary);
    let allocs = evidence.sum(|site| site.events.count.allocs);
    let share = percent(temporary, allocs);
    (share >= LEAST_PERCENT).then(|| Finding {
        name: "temporaries",
        headline: format!(
            "{temporary} of {allocs} blocks ({share:.1} %) were temporary: \
             freed by the next call of the thread that had allocated them"
        ),
        places: evidence.largest(PlaceUnit::Blocks, |site| site.events.temporary),
        lines: Vec::new(),
        next: "heapwise top FILE --alloc_objects",
    })
}
