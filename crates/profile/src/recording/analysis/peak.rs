//! Which places held the memory at the peak.

use super::Evidence;
use crate::finding::{Finding, FindingKind, RankUnit};

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let total = evidence.sum(|site| site.peak_bytes);
    let places = evidence.largest(RankUnit::Bytes, |site| site.peak_bytes);
    (!places.is_empty()).then(|| Finding {
        kind: FindingKind::Peak,
        values: vec![("bytes", total as f64), ("ms", evidence.peak_ms as f64)],
        places,
        rows: Vec::new(),
    })
}
