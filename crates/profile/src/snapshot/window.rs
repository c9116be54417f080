//! A stretch of time between two snapshots of one segment.
//!
//! Nothing is reset for it: what was allocated is a difference, so that several controllers can
//! look at one process at once. Live memory is that of the later snapshot.

use foldhash::HashMap;
use heapwise_format::segment::Counter;

use super::tallies::SiteSum;
use super::{SegmentSource, Snapshot, samples, sizes, tallies};
use crate::metric::column;
use crate::{Profile, SizeBin, SizeHistogram, Values};

/// What had been allocated when a window began.
#[derive(Debug, Default)]
pub struct Baseline {
    period: u64,
    sites: HashMap<(u32, u16, u16), Allocated>,
    sizes: SizeHistogram,
}

#[derive(Debug, Clone, Copy)]
struct Allocated {
    values: Values,
    variance: Values,
    slack: f64,
    grown: f64,
}

fn key(sum: &SiteSum) -> (u32, u16, u16) {
    (sum.node, sum.rate, sum.thread)
}

impl<S: SegmentSource> Snapshot<'_, S> {
    /// The beginning of a window.
    #[must_use]
    pub fn baseline(&self) -> Baseline {
        let allocated = |sum: &SiteSum| {
            let (values, variance) = sum.values();
            Allocated { values, variance, slack: sum.alloc_slack as f64, grown: sum.grown_bytes as f64 }
        };
        Baseline {
            period: self.counter(Counter::Period),
            sites: tallies::read(self).iter().map(|sum| (key(sum), allocated(sum))).collect(),
            sizes: sizes::read(self),
        }
    }

    /// Whether the counts were reset since the window began; then it begins with the reset.
    #[must_use]
    pub fn is_reset_since(&self, baseline: &Baseline) -> bool {
        self.counter(Counter::Period) != baseline.period
    }

    /// What was allocated since the window began, and what is live now.
    #[must_use]
    pub fn profile_since(&self, baseline: &Baseline) -> Profile {
        let sums = tallies::read(self);
        let mut profile = self.profile_of(&sums);
        if !self.is_reset_since(baseline) {
            baseline.subtract_from(&mut profile, &sums);
        }
        profile
    }

    pub(super) fn profile_of(&self, sums: &[SiteSum]) -> Profile {
        let (mut profile, nodes) = self.stacks();
        samples::add(self, sums, &nodes, &mut profile);
        profile.sizes = sizes::read(self);
        profile.meta.losses.dropped_events = 0;
        // Threads add to the counter of the peak in steps, so it may be behind what is live now.
        let live = profile.total().inuse_bytes as u64;
        profile.meta.peak_bytes = Some(self.peak_bytes(live as f64));
        profile
    }
}

impl Baseline {
    /// `sums` are those of the profile's samples, in the same order.
    fn subtract_from(&self, profile: &mut Profile, sums: &[SiteSum]) {
        let before: Vec<Option<&Allocated>> = sums.iter().map(|sum| self.sites.get(&key(sum))).collect();
        for (sample, before) in profile.samples.iter_mut().zip(&before) {
            if let Some(before) = before {
                subtract(&mut sample.values, &before.values);
                subtract(&mut sample.variance, &before.variance);
            }
        }
        for extra in &mut profile.extra {
            let of = |before: &Allocated| match &*extra.name {
                column::ALLOC_SLACK => before.slack,
                column::REALLOC_GROWTH => before.grown,
                _ => 0.0,
            };
            for (value, before) in extra.values.iter_mut().zip(&before) {
                *value -= before.map_or(0.0, of);
            }
        }
        let before = self.sizes.bins.iter().map(|bin| {
            let mut values = Values::default();
            subtract(&mut values, &bin.values);
            SizeBin { values, ..*bin }
        });
        profile.sizes = SizeHistogram::new(profile.sizes.bins.iter().copied().chain(before));
    }
}

/// Takes off what was allocated before; live values stay.
fn subtract(values: &mut Values, before: &Values) {
    values.alloc_objects -= before.alloc_objects;
    values.alloc_bytes -= before.alloc_bytes;
}
