//! Which places held the memory at the peak.

use super::{Evidence, Finding, PlaceUnit, percent};

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let total = evidence.sum(|site| site.peak_bytes);
    let places = evidence.largest(PlaceUnit::Bytes, |site| site.peak_bytes);
    let first = places.first()?;
    Some(Finding {
        name: "peak",
        headline: format!(
            "{total} bytes were live at the peak, {} ms after the start; \
             one place held {:.1} % of them",
            evidence.peak_ms,
            percent(first.value, total)
        ),
        places,
        lines: Vec::new(),
        next: "heapwise at FILE peak",
    })
}
