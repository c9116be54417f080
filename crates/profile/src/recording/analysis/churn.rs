//! Much allocated, little held: time spent in the allocator rather than memory.

use super::{Evidence, Finding, PlaceUnit};

/// Worth saying when this many times the peak was allocated.
const LEAST_TURNOVER: u64 = 20;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let allocated = evidence.sum(|site| site.alloc_bytes());
    let peak = evidence.timeline.peak().map_or(0, |step| step.max_live_bytes).max(1);
    let turnover = allocated / peak;
    (turnover >= LEAST_TURNOVER).then(|| Finding {
        name: "churn",
        headline: format!("{allocated} bytes were allocated, {turnover} times what was ever held at once"),
        places: evidence.largest(PlaceUnit::Bytes, |site| site.alloc_bytes()),
        lines: Vec::new(),
        next: "heapwise top FILE --alloc_space",
    })
}
