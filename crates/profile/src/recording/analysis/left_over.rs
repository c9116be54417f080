//! Blocks that were not freed. That is not yet a leak: they may have been in use to the end.

use heapwise_format::segment::{Counter, Runtime, RuntimeSupport};

use super::{Evidence, Site};
use crate::finding::{Finding, FindingKind, RankUnit};

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let total = evidence.sum(Site::end_bytes);
    let blocks = evidence.sum(|site| site.events.count.allocs.saturating_sub(site.events.count.frees));
    let runtime = Runtime::decode(evidence.tables.counter(Counter::Runtime));
    let is_followed = runtime.is_some_and(|runtime| runtime.support == RuntimeSupport::Followed);
    let kind = match evidence.tables.end().has_ended() {
        // What an interpreter frees while it shuts down is not recorded.
        true if is_followed => FindingKind::Held,
        true => FindingKind::NeverFreed,
        false => FindingKind::StillHeld,
    };
    (total > 0).then(|| Finding {
        kind,
        values: vec![("bytes", total as f64), ("blocks", blocks as f64)],
        places: evidence.largest(RankUnit::Bytes, Site::end_bytes),
        rows: Vec::new(),
    })
}
