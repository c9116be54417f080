//! Findings in a recording, each by a small analysis of its own.
//!
//! An analysis checks the [`Evidence`] and returns a finding or nothing.

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
use crate::finding::{Finding, RankUnit, RankedStack};

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
    /// The stack of each node, as [`Tables::stacks`] has them.
    stacks: &'a [Option<StackId>],
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

impl<'a> Evidence<'a> {
    /// Puts the evidence together.
    #[must_use]
    pub fn new(
        tables: &'a Tables,
        statistics: &'a Statistics,
        timeline: &'a Timeline,
        base: &'a Counts,
        (peak, peak_ms): (&'a Counts, u64),
        stacks: &'a [Option<StackId>],
    ) -> Self {
        let mut evidence =
            Self { tables, statistics, timeline, base, peak, peak_ms, stacks, sites: Vec::new() };
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
        let mut sites: Vec<(u64, u32)> =
            self.sites.iter().map(|site| (value(site), site.node)).filter(|(value, _)| *value > 0).collect();
        sites.sort_by_key(|(value, node)| (std::cmp::Reverse(*value), *node));
        let stack = |node: u32| self.stacks.get(node as usize).copied().flatten();
        sites.iter().map(|(value, node)| RankedStack { stack: stack(*node), value: *value, unit }).collect()
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
