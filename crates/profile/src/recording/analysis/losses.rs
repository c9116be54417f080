//! Data that is missing in the recording.

use super::{Evidence, Finding, FindingKind};

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let sums = evidence.statistics;
    // Only the counter includes the last events of a program that found no room: no event came
    // after them.
    let missing = sums.gap_events.max(evidence.tables.losses().dropped_events);
    if missing | sums.missed_frees == 0 {
        return None;
    }
    Some(Finding {
        kind: FindingKind::MissingEvents,
        values: vec![("events", missing as f64), ("frees", sums.missed_frees as f64)],
        places: Vec::new(),
        rows: Vec::new(),
    })
}
