//! Findings: what in a recording deserves a look, each by a small analysis of its own.
//!
//! An analysis checks the [`Evidence`] and returns a finding or nothing. The order of [`findings`]
//! is the order of a report: what holds memory, what wastes time, what was not seen.

mod churn;
mod growth;
mod left_over;
mod lifetimes;
mod peak;
mod realloc_chains;
mod sizes;
mod temporaries;
mod threads;
mod unseen_frees;

use super::statistics::{POINTS, SiteStatistics};
use super::{Count, Counts, Statistics, Tables, Timeline};
use crate::StackId;

/// Input of the analyses.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Tables of the recording.
    pub tables: &'a Tables,
    /// Sums over all its events.
    pub statistics: &'a Statistics,
    /// Live bytes over time.
    pub timeline: &'a Timeline,
    /// Counts before the first event.
    pub base: &'a Counts,
    /// Counts at the peak.
    pub peak: &'a Counts,
    /// The millisecond of the peak.
    pub peak_ms: u64,
    sites: Vec<Site>,
}

/// A stack that allocates, with all its threads taken together.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    /// Node of the recording's stack tree.
    pub node: u32,
    /// Events of its blocks.
    pub events: SiteStatistics,
    /// Bytes live at the peak.
    pub peak_bytes: u64,
    /// Bytes live at the end of each of [`POINTS`] equal parts of the recording.
    pub live_bytes: [u64; POINTS],
}

impl Site {
    /// Adds the events of one thread, with its live bytes at the start and at the peak.
    fn add(&mut self, events: &SiteStatistics, start_bytes: u64, peak_bytes: u64) {
        self.events.merge(events);
        self.peak_bytes = self.peak_bytes.saturating_add(peak_bytes);
        let mut live = start_bytes as i64;
        for (sum, change) in self.live_bytes.iter_mut().zip(events.changes) {
            live = live.saturating_add(change);
            *sum = sum.saturating_add(live.max(0) as u64);
        }
    }

    /// Bytes allocated.
    #[must_use]
    pub fn alloc_bytes(&self) -> u64 {
        self.events.count.alloc_bytes
    }

    /// Bytes live at the end.
    #[must_use]
    pub(crate) fn end_bytes(&self) -> u64 {
        self.live_bytes[POINTS - 1]
    }
}

/// Kind of a finding. The values of a kind are named after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// Frees that no hooked function made, noticed when the address was used again: `frees`.
    UnseenFrees,
    /// The sites that held the memory at the peak: `bytes`, `ms`.
    Peak,
    /// Places that were still growing at the end: `sites`, `bytes` (over the second half).
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
}

impl FindingKind {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
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
        }
    }
}

/// A finding, as values; renderers word it.
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
    /// Node of the recording's stack tree.
    pub node: u32,
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

impl<'a> Evidence<'a> {
    /// Puts the evidence together.
    #[must_use]
    pub fn new(
        tables: &'a Tables,
        statistics: &'a Statistics,
        timeline: &'a Timeline,
        base: &'a Counts,
        (peak, peak_ms): (&'a Counts, u64),
    ) -> Self {
        let mut evidence = Self { tables, statistics, timeline, base, peak, peak_ms, sites: Vec::new() };
        evidence.sites = evidence.gather();
        evidence
    }

    /// All sites, in the order of their nodes.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    fn gather(&self) -> Vec<Site> {
        let mut order: Vec<usize> = (1..self.tables.sites.len()).collect();
        order.sort_by_key(|number| self.tables.sites[*number].node);
        let mut sites: Vec<Site> = Vec::new();
        for number in order {
            let node = self.tables.sites[number].node;
            if sites.last().is_none_or(|site| site.node != node) {
                let (events, live_bytes) = (SiteStatistics::default(), [0; POINTS]);
                sites.push(Site { node, events, peak_bytes: 0, live_bytes });
            }
            if let (Some(site), Some(events)) = (sites.last_mut(), self.statistics.sites.get(number)) {
                let live = |counts: &Counts| counts.rows().get(number).map_or(0, Count::live_bytes);
                site.add(events, live(self.base), live(self.peak));
            }
        }
        sites
    }

    /// Sum over all sites.
    fn sum(&self, value: impl Fn(&Site) -> u64) -> u64 {
        self.sites.iter().map(value).fold(0, u64::saturating_add)
    }

    /// The sites with a `value`, largest first.
    fn largest(&self, unit: RankUnit, value: impl Fn(&Site) -> u64) -> Vec<RankedStack> {
        let mut places: Vec<RankedStack> = self
            .sites
            .iter()
            .map(|site| RankedStack { node: site.node, value: value(site), unit })
            .filter(|place| place.value > 0)
            .collect();
        places.sort_by_key(|place| (std::cmp::Reverse(place.value), place.node));
        places
    }
}

/// Every finding of a recording.
#[must_use]
pub fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let analyses: [fn(&Evidence<'_>) -> Option<Finding>; 10] = [
        peak::check,
        growth::check,
        left_over::check,
        temporaries::check,
        churn::check,
        realloc_chains::check,
        lifetimes::check,
        sizes::check,
        threads::check,
        unseen_frees::check,
    ];
    analyses.iter().filter_map(|check| check(evidence)).collect()
}

/// `part` of `whole` in percent.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / (whole.max(1)) as f64
}

/// Stack of a place within a profile of the same recording.
impl RankedStack {
    /// Its stack, given the stacks by node as [`Tables::stacks`] has them.
    #[must_use]
    pub fn stack(&self, stacks: &[Option<StackId>]) -> Option<StackId> {
        stacks.get(self.node as usize).copied().flatten()
    }
}
