//! Blocks that were never freed. Never freed is not yet leaked: they may have been in use to the end.

use super::{Evidence, Finding, PlaceUnit, Site};

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let total = evidence.sum(Site::end_bytes);
    let blocks = evidence.sum(|site| site.events.count.allocs.saturating_sub(site.events.count.frees));
    (total > 0).then(|| Finding {
        name: "left over",
        headline: format!("{total} bytes in {blocks} blocks were never freed"),
        places: evidence.largest(PlaceUnit::Bytes, Site::end_bytes),
        lines: Vec::new(),
        next: "heapwise at FILE end",
    })
}
