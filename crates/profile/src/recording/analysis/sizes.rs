//! Distribution of the requested sizes.

use super::{Evidence, percent};
use crate::finding::{Finding, FindingClass, FindingKind, FindingRow};

/// Classes are powers of two; this many of the fullest are shown.
const MOST_CLASSES: usize = 6;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let classes: Vec<(u64, u64)> =
        evidence.statistics.sizes.iter().map(|count| (count.allocs, count.alloc_bytes)).collect();
    let allocs: u64 = classes.iter().map(|class| class.0).sum();
    let mut fullest: Vec<usize> = (0..classes.len()).filter(|class| classes[*class].0 > 0).collect();
    fullest.sort_by_key(|class| std::cmp::Reverse(classes[*class].0));
    fullest.truncate(MOST_CLASSES);
    fullest.sort_unstable();
    let most = *fullest.iter().max_by_key(|class| classes[**class].0)?;
    let rows = fullest.iter().map(|class| {
        let ((blocks, bytes), (min, max)) = (classes[*class], range(*class));
        FindingRow {
            class: FindingClass::Sizes(min, max),
            blocks,
            percent: percent(blocks, allocs),
            bytes: Some(bytes),
        }
    });
    let (min, max) = range(most);
    Some(Finding {
        kind: FindingKind::Sizes,
        values: vec![("percent", percent(classes[most].0, allocs)), ("min", min as f64), ("max", max as f64)],
        places: Vec::new(),
        rows: rows.collect(),
    })
}

/// Smallest and largest size of a class.
fn range(class: usize) -> (u64, u64) {
    match class {
        0 => (0, 0),
        64 => (1 << 63, u64::MAX),
        _ => (1 << (class - 1), (1 << class) - 1),
    }
}
