//! Findings: what in a recording deserves a look, each by a small analysis of its own.
//!
//! An analysis checks the [`Evidence`] and describes what it found, or says nothing. The order of
//! [`findings`] is the order of a report: what is missing, what holds memory, what wastes time.

mod churn;
mod growth;
mod left_over;
mod lifetimes;
mod losses;
mod peak;
mod realloc_chains;
mod sizes;
mod temporaries;
mod threads;

use super::statistics::{BucketStatistics, POINTS};
use super::{Catalog, Counts, Statistics, Timeline};
use crate::StackId;

/// What the analyses look at.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Tables of the recording.
    pub catalog: &'a Catalog,
    /// Sums over all its events.
    pub statistics: &'a Statistics,
    /// Live bytes over time.
    pub timeline: &'a Timeline,
    /// What was there before the first event.
    pub base: &'a Counts,
    /// Counts at the highest moment.
    pub peak: &'a Counts,
    /// The millisecond of that moment.
    pub peak_ms: u64,
    sites: Vec<Site>,
}

/// A stack that allocates, with all its sizes taken together.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    /// Node of the recording's stack tree.
    pub node: u32,
    /// Events of its blocks.
    pub events: BucketStatistics,
    /// Bytes allocated.
    pub alloc_bytes: u64,
    /// Bytes live at the highest moment.
    pub peak_bytes: u64,
    /// Bytes live at the end of each of [`POINTS`] equal parts of the recording.
    pub live_bytes: [u64; POINTS],
}

impl Site {
    /// Bytes live at the end.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.live_bytes[POINTS - 1]
    }
}

/// Something worth a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Short name, e.g. `growth`.
    pub name: &'static str,
    /// What was found, with its numbers, in one line.
    pub headline: String,
    /// The places that matter most, largest first.
    pub places: Vec<Place>,
    /// Further lines, e.g. a histogram.
    pub lines: Vec<String>,
    /// The `heapwise` command to go on with, `FILE` standing for the recording.
    pub next: &'static str,
}

/// A stack and what is to be said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Node of the recording's stack tree.
    pub node: u32,
    /// The number it is ranked by.
    pub value: u64,
    /// What the number is.
    pub unit: PlaceUnit,
}

/// What the number of a [`Place`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceUnit {
    /// Bytes.
    Bytes,
    /// Blocks.
    Blocks,
}

/// Places shown with a finding.
const MOST_PLACES: usize = 3;

impl<'a> Evidence<'a> {
    /// Puts the evidence together.
    #[must_use]
    pub fn new(
        catalog: &'a Catalog,
        statistics: &'a Statistics,
        timeline: &'a Timeline,
        base: &'a Counts,
        (peak, peak_ms): (&'a Counts, u64),
    ) -> Self {
        let mut evidence = Self { catalog, statistics, timeline, base, peak, peak_ms, sites: Vec::new() };
        evidence.sites = evidence.gather();
        evidence
    }

    /// All sites, in the order of their nodes.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    fn gather(&self) -> Vec<Site> {
        let mut order: Vec<usize> = (1..self.catalog.buckets.len()).collect();
        order.sort_by_key(|number| self.catalog.buckets[*number].node);
        let mut sites: Vec<Site> = Vec::new();
        for number in order {
            let bucket = self.catalog.buckets[number];
            if sites.last().is_none_or(|site| site.node != bucket.node) {
                sites.push(Site {
                    node: bucket.node,
                    events: BucketStatistics::default(),
                    alloc_bytes: 0,
                    peak_bytes: 0,
                    live_bytes: [0; POINTS],
                });
            }
            if let (Some(site), Some(events)) = (sites.last_mut(), self.statistics.buckets.get(number)) {
                let counted = |counts: &Counts| counts.rows().get(number).map_or(0, super::Count::live);
                site.events.merge(events);
                site.alloc_bytes = site.alloc_bytes.saturating_add(events.allocs.saturating_mul(bucket.size));
                site.peak_bytes =
                    site.peak_bytes.saturating_add(counted(self.peak).saturating_mul(bucket.size));
                let mut live = counted(self.base) as i64;
                for (sum, change) in site.live_bytes.iter_mut().zip(events.changes) {
                    live = live.saturating_add(change);
                    *sum = sum.saturating_add((live.max(0) as u64).saturating_mul(bucket.size));
                }
            }
        }
        sites
    }

    /// Sum over all sites.
    fn sum(&self, value: impl Fn(&Site) -> u64) -> u64 {
        self.sites.iter().map(value).fold(0, u64::saturating_add)
    }

    /// The sites with the largest `value`.
    fn largest(&self, unit: PlaceUnit, value: impl Fn(&Site) -> u64) -> Vec<Place> {
        let mut places: Vec<Place> = self
            .sites
            .iter()
            .map(|site| Place { node: site.node, value: value(site), unit })
            .filter(|place| place.value > 0)
            .collect();
        places.sort_by_key(|place| (std::cmp::Reverse(place.value), place.node));
        places.truncate(MOST_PLACES);
        places
    }
}

/// Every finding of a recording.
#[must_use]
pub fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let analyses: [fn(&Evidence<'_>) -> Option<Finding>; 10] = [
        losses::check,
        peak::check,
        growth::check,
        left_over::check,
        temporaries::check,
        churn::check,
        realloc_chains::check,
        lifetimes::check,
        sizes::check,
        threads::check,
    ];
    analyses.iter().filter_map(|check| check(evidence)).collect()
}

/// `part` of `whole` in percent.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / (whole.max(1)) as f64
}

/// Stack of a place within a profile of the same recording.
impl Place {
    /// Its stack, given the stacks by node as [`Catalog::stacks`] has them.
    #[must_use]
    pub fn stack(&self, stacks: &[Option<StackId>]) -> Option<StackId> {
        stacks.get(self.node as usize).copied().flatten()
    }
}
