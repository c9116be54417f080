//! Findings: what in a profile or a recording deserves a look, as values that renderers word.

mod groups;
mod of_profile;
mod of_resident;

pub use groups::{FunctionGroup, MOST_GROUPS, groups};
pub use of_profile::findings;
pub use of_resident::ResidentMemory;

use std::cmp::Reverse;

use crate::StackId;

/// Most findings that a report shows.
const MOST: usize = 5;

/// The most important findings: memory that is held before work that is wasted, and by bytes.
/// Statistics are left out.
#[must_use]
pub fn most_important(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.retain(|finding| finding.kind.importance() != Importance::Statistic);
    findings.sort_by_key(|finding| (finding.kind.importance(), Reverse(finding.bytes())));
    findings.truncate(MOST);
    findings
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Importance {
    /// Memory.
    Held,
    /// Time in the allocator.
    Wasted,
    /// Neither.
    Statistic,
}

/// Kind of a finding. The values of a kind are named after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// Against the baseline, functions hold more: `bytes` (their growth), `total_bytes` (change of
    /// the whole program).
    Growth,
    /// Against the baseline, functions held more at the peak: values as those of
    /// [`FindingKind::Growth`].
    PeakGrowth,
    /// Blocks that are live, in a process that runs or whose end is not known: `bytes`, `blocks`.
    Held,
    /// Frees that no hooked function made, noticed when the address was used again: `frees`.
    UnseenFrees,
    /// The sites that held the memory at the peak: `bytes`, and of a recording `ms`.
    Peak,
    /// Places that grew steadily: `sites`, `bytes`, `until_ms`.
    GrowingSites,
    /// Blocks that were not freed when the program ended: `bytes`, `blocks`.
    NeverFreed,
    /// Blocks that were live at the end of the recording, while the program ran on or its end is
    /// not known: `bytes`, `blocks`.
    StillHeld,
    /// Blocks freed by the next call of their thread: `blocks`, `allocations`, `percent`.
    Temporaries,
    /// Much allocated, little held: `bytes`, `turnover` (times the peak).
    Turnover,
    /// Blocks that grow step by step: `steps`, `length` (at the first place, on average).
    ReallocChains,
    /// How long freed blocks had lived: `mean_ms`, `percent` (less than a millisecond).
    Lifetimes,
    /// Which sizes are allocated: `percent`, `min`, `max` of the most frequent class.
    Sizes,
    /// Which threads allocate: `threads`, `blocks`.
    Threads,
    /// The allocator keeps much more than is live: `bytes` (kept), `live_bytes`, `percent` (of the
    /// resident bytes).
    Fragmentation,
    /// Resident memory without an explanation: `bytes`, `resident_bytes`, `percent`.
    Unexplained,
}

impl FindingKind {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Growth => "growth",
            FindingKind::PeakGrowth => "peak_growth",
            FindingKind::Held => "held",
            FindingKind::UnseenFrees => "unseen_frees",
            FindingKind::Peak => "peak",
            FindingKind::GrowingSites => "growing_sites",
            FindingKind::NeverFreed => "never_freed",
            FindingKind::StillHeld => "still_held",
            FindingKind::Temporaries => "temporaries",
            FindingKind::Turnover => "turnover",
            FindingKind::ReallocChains => "realloc_chains",
            FindingKind::Lifetimes => "lifetimes",
            FindingKind::Sizes => "sizes",
            FindingKind::Threads => "threads",
            FindingKind::Fragmentation => "fragmentation",
            FindingKind::Unexplained => "unexplained",
        }
    }
}

impl FindingKind {
    fn importance(self) -> Importance {
        match self {
            FindingKind::Growth
            | FindingKind::PeakGrowth
            | FindingKind::Fragmentation
            | FindingKind::Unexplained
            | FindingKind::Held
            | FindingKind::Peak
            | FindingKind::GrowingSites
            | FindingKind::NeverFreed
            | FindingKind::StillHeld
            | FindingKind::UnseenFrees => Importance::Held,
            FindingKind::Temporaries | FindingKind::Turnover | FindingKind::ReallocChains => {
                Importance::Wasted
            }
            FindingKind::Lifetimes | FindingKind::Sizes | FindingKind::Threads => Importance::Statistic,
        }
    }
}

/// A finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Kind of the finding.
    pub kind: FindingKind,
    /// Its numbers by name; the kind determines which exist.
    pub values: Vec<(&'static str, f64)>,
    /// All places that it is about, largest first; renderers group them by function.
    pub places: Vec<RankedStack>,
    /// Further rows, e.g. a histogram.
    pub rows: Vec<FindingRow>,
}

impl Finding {
    /// A value by its name; 0 when the kind does not have it.
    #[must_use]
    pub fn value(&self, name: &str) -> f64 {
        self.values.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, value)| *value)
    }

    fn bytes(&self) -> u64 {
        self.value("bytes").max(0.0) as u64
    }
}

/// A row of a finding: blocks of one class.
#[derive(Debug, Clone, PartialEq)]
pub struct FindingRow {
    /// Which blocks.
    pub class: FindingClass,
    /// How many.
    pub blocks: u64,
    /// Their share of all, in percent.
    pub percent: f64,
    /// Their bytes, where they are known.
    pub bytes: Option<u64>,
}

/// Which blocks a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindingClass {
    /// Freed within this many milliseconds; `None` for longer.
    Lifetime(Option<u64>),
    /// Sizes from the first to the second number, both included.
    Sizes(u64, u64),
    /// Allocated by this thread.
    Thread(u64, String),
}

/// A stack and its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankedStack {
    /// The stack in the profile that names it; `None` when its record is damaged.
    pub stack: Option<StackId>,
    /// The number it is ranked by.
    pub value: u64,
    /// Unit of the number.
    pub unit: RankUnit,
}

/// Unit of the number of a [`RankedStack`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankUnit {
    /// Bytes.
    Bytes,
    /// Blocks.
    Blocks,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_memory_comes_first_and_statistics_are_left_out() {
        let finding = |kind, bytes| Finding {
            kind,
            values: vec![("bytes", bytes)],
            places: Vec::new(),
            rows: Vec::new(),
        };
        let found = most_important(vec![
            finding(FindingKind::Sizes, 1e9),
            finding(FindingKind::Turnover, 1e9),
            finding(FindingKind::NeverFreed, 10.0),
            finding(FindingKind::Peak, 30.0),
        ]);
        let kinds: Vec<_> = found.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [FindingKind::Peak, FindingKind::NeverFreed, FindingKind::Turnover]);
    }
}
