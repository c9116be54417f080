//! Blocks that were never freed. Never freed is not yet leaked: they may have been in use to the
//! end.

use super::{Evidence, Finding, FindingKind, RankUnit, Site};

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let total = evidence.sum(Site::end_bytes);
    let blocks = evidence.sum(|site| site.events.count.allocs.saturating_sub(site.events.count.frees));
    (total > 0).then(|| Finding {
        kind: FindingKind::NeverFreed,
        values: vec![("bytes", total as f64), ("blocks", blocks as f64)],
        places: evidence.largest(RankUnit::Bytes, Site::end_bytes),
        rows: Vec::new(),
    })
}
