//! Which sizes are asked for.

use super::{Evidence, Finding, percent};

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
    let lines = fullest.iter().map(|class| {
        let (blocks, bytes) = classes[*class];
        format!("{:>24} {blocks:>12} {:5.1} % {bytes:>16} bytes", range(*class), percent(blocks, allocs))
    });
    Some(Finding {
        name: "sizes",
        headline: format!(
            "{:.1} % of all blocks were of {} bytes",
            percent(classes[most].0, allocs),
            range(most)
        ),
        places: Vec::new(),
        lines: lines.collect(),
        next: "heapwise sizes FILE",
    })
}

fn range(class: usize) -> String {
    match class {
        0 => "0".into(),
        1 => "1".into(),
        64 => format!("{} or more", 1u64 << 63),
        _ => format!("{} to {}", 1u64 << (class - 1), (1u64 << class) - 1),
    }
}
