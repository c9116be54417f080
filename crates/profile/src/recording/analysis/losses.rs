//! What the recording does not know.

use super::{Evidence, Finding};

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let sums = evidence.statistics;
    // Of the last events of a program that found no room only the counter tells: no event came after them.
    let missing = sums.gap_events.max(evidence.tables.losses().dropped_events);
    if missing | sums.missed_frees == 0 {
        return None;
    }
    Some(Finding {
        name: "losses",
        headline: format!(
            "{} events are missing: the program allocated faster than they could be written; \
             {} frees among them were noticed later",
            missing, sums.missed_frees
        ),
        places: Vec::new(),
        lines: vec!["live bytes may be too high by what the missing frees would have taken away".into()],
        next: "heapwise run --log --on-full block --block 10s -- PROGRAM",
    })
}
