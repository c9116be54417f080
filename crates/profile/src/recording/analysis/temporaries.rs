//! Temporary blocks: allocated and freed by one thread with no other allocation or free of that
//! thread in between, within a millisecond. Such a block could live on the stack or be kept for
//! reuse.

use super::{Evidence, percent};
use crate::finding::{Finding, FindingKind, RankUnit};

/// Worth saying from this share of all allocations on, in percent.
const LEAST_PERCENT: f64 = 5.0;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let temporary = evidence.sum(|site| site.events.temporary);
    let allocs = evidence.sum(|site| site.events.count.allocs);
    let share = percent(temporary, allocs);
    (share >= LEAST_PERCENT).then(|| Finding {
        kind: FindingKind::Temporaries,
        values: vec![("blocks", temporary as f64), ("allocations", allocs as f64), ("percent", share)],
        places: evidence.largest(RankUnit::Blocks, |site| site.events.temporary),
        rows: Vec::new(),
    })
}
