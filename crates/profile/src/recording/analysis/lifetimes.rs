//! How long freed blocks had lived.

use super::{Evidence, percent};
use crate::finding::{Finding, FindingClass, FindingKind, FindingRow, RankUnit};
use crate::recording::statistics::LIFETIME_CLASSES_MS;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let frees = evidence.sum(|site| site.events.count.frees);
    if frees == 0 {
        return None;
    }
    let class = |number: usize| evidence.sum(|site| site.events.lifetimes[number]);
    let sum_ms = evidence.sum(|site| site.events.lifetime_ms);
    let rows = (0..=LIFETIME_CLASSES_MS.len())
        .map(|number| (number, class(number)))
        .filter(|(_, blocks)| *blocks > 0)
        .map(|(number, blocks)| FindingRow {
            class: FindingClass::Lifetime(LIFETIME_CLASSES_MS.get(number).copied()),
            blocks,
            percent: percent(blocks, frees),
            bytes: None,
        })
        .collect();
    Some(Finding {
        kind: FindingKind::Lifetimes,
        values: vec![("mean_ms", sum_ms as f64 / frees as f64), ("percent", percent(class(0), frees))],
        places: evidence.largest(RankUnit::Blocks, |site| site.events.lifetimes[0]),
        rows,
    })
}
