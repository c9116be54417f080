//! How long freed blocks had lived.

use super::{Evidence, Finding, PlaceUnit, percent};
use crate::recording::statistics::LIFETIME_CLASSES_MS;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let frees = evidence.sum(|site| site.events.count.frees);
    if frees == 0 {
        return None;
    }
    let class = |number: usize| evidence.sum(|site| site.events.lifetimes[number]);
    let sum_ms = evidence.sum(|site| site.events.lifetime_ms);
    let lines = (0..=LIFETIME_CLASSES_MS.len())
        .map(|number| (number, class(number)))
        .filter(|(_, blocks)| *blocks > 0)
        .map(|(number, blocks)| {
            format!("{:>10} {blocks:>12} {:5.1} %", label(number), percent(blocks, frees))
        })
        .collect();
    Some(Finding {
        name: "lifetimes",
        headline: format!(
            "freed blocks had lived {:.1} ms on average; {:.1} % less than a millisecond",
            sum_ms as f64 / frees as f64,
            percent(class(0), frees)
        ),
        places: evidence.largest(PlaceUnit::Blocks, |site| site.events.lifetimes[0]),
        lines,
        next: "heapwise timeline FILE",
    })
}

fn label(class: usize) -> String {
    match LIFETIME_CLASSES_MS.get(class) {
        Some(end) if *end >= 1_000 => format!("< {} s", end / 1_000),
        Some(end) => format!("< {end} ms"),
        None => "longer".into(),
    }
}
