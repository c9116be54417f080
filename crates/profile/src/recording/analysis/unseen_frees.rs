//! Blocks that were freed by a call that is not hooked.

use super::Evidence;
use crate::finding::{Finding, FindingKind};

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let frees = evidence.statistics.missed_frees;
    (frees > 0).then(|| Finding {
        kind: FindingKind::UnseenFrees,
        values: vec![("frees", frees as f64)],
        places: Vec::new(),
        rows: Vec::new(),
    })
}
