//! Much allocated, little held: time spent in the allocator rather than memory.

use super::Evidence;
use crate::finding::{Finding, FindingKind, RankUnit};

/// Worth saying when this many times the peak was allocated.
const LEAST_TURNOVER: u64 = 20;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let allocated = evidence.sum(|site| site.alloc_bytes());
    let peak = evidence.timeline.peak().map_or(0, |step| step.max_live_bytes).max(1);
    let turnover = allocated / peak;
    (turnover >= LEAST_TURNOVER).then(|| Finding {
        kind: FindingKind::Turnover,
        values: vec![("bytes", allocated as f64), ("turnover", turnover as f64)],
        places: evidence.largest(RankUnit::Bytes, |site| site.alloc_bytes()),
        rows: Vec::new(),
    })
}
