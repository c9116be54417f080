//! Bounds of the true value of a total, given what was not recorded or not attributed.
//!
//! A gate (`heapwise check`) may say "ok" only when the upper bound keeps the limit, and "over the
//! limit" only when the lower bound breaks it. The standard error of samples is not part of the
//! bounds.

use crate::coverage::Coverage;
use crate::metric::column;
use crate::unattributed::PerCause;
use crate::{CallTree, Losses, Metric, Profile, Query, Weight};

/// Bounds of a total.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The true value is not below this.
    pub low: f64,
    /// The value in the profile.
    pub found: f64,
    /// The true value is not above this; infinite when events of unknown size are missing.
    pub high: f64,
}

/// Whether a value keeps a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitCheck {
    /// The limit is kept for any value of the missing events.
    Kept,
    /// The limit is exceeded for any value of the missing events.
    Broken,
    /// The result depends on the missing events.
    Unknown,
}

impl Bounds {
    /// Compares with the highest value allowed.
    #[must_use]
    pub fn against(&self, limit: f64) -> LimitCheck {
        match () {
            () if self.high <= limit => LimitCheck::Kept,
            () if self.low > limit => LimitCheck::Broken,
            () => LimitCheck::Unknown,
        }
    }
}

/// Bounds of the total of `profile` minus `base` that `query` selects. `is_part`: samples were
/// taken out of the profile by their stacks before (suppressions).
#[must_use]
pub fn of_total(profile: &Profile, base: Option<&Profile>, query: &Query, is_part: bool) -> Bounds {
    let tree = CallTree::compare(profile, base, query);
    let found = tree.total().value;
    let mut bounds = Bounds { low: found, found, high: found };
    // A filter passes or drops unattributed memory independent of its true stack.
    if is_part || query.filter.selects() {
        bounds.widen(sum(&tree.missing.unattributed));
    }
    bounds.add_losses(&profile.meta.losses, query.metric, profile);
    if let Some(base) = base {
        // Memory missing in the base makes the difference too large.
        let mut missed = Bounds { low: 0.0, found: 0.0, high: 0.0 };
        missed.add_losses(&base.meta.losses, query.metric, base);
        bounds.low -= missed.high;
        bounds.high -= missed.low;
    }
    bounds
}

/// Bounds of the process's peak; `None` when the profile has no peak.
#[must_use]
pub fn of_peak(profile: &Profile) -> Option<Bounds> {
    let found = profile.meta.peak_bytes? as f64;
    let mut bounds = Bounds { low: found, found, high: found + peak_error(profile, found) };
    bounds.add_losses(&profile.meta.losses, Metric::InuseSpace, profile);
    Some(bounds)
}

/// Bytes by which a peak that the probe counted may be too low: several threads add to the counter
/// in steps. That of one thread, and of a recording, is exact.
fn peak_error(profile: &Profile, peak: f64) -> f64 {
    const SHARE: f64 = 0.02;
    const LEAST: f64 = (64 << 10) as f64;
    let is_counter = profile.extra.iter().any(|extra| extra.name == column::PEAK_SPACE);
    if is_counter && profile.threads.len() > 1 { (SHARE * peak).max(LEAST) } else { 0.0 }
}

fn sum(unattributed: &PerCause<Weight>) -> f64 {
    unattributed.iter().map(|(_, weight)| weight.value.abs()).sum()
}

impl Bounds {
    fn widen(&mut self, by: f64) {
        self.low -= by;
        self.high += by;
    }

    fn add_losses(&mut self, losses: &Losses, metric: Metric, profile: &Profile) {
        let missing = losses.dropped_events as f64;
        match metric {
            Metric::AllocObjects => self.high += missing,
            // A missing free makes live values too high, a missing allocation too low.
            Metric::InuseObjects => self.widen(missing),
            _ if missing > 0.0 => *self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY, ..*self },
            _ => {}
        }
        // Nothing bounds what was not recorded at all.
        if Coverage::of(profile).gaps.iter().any(|gap| gap.is_unbounded(metric)) {
            self.high = f64::INFINITY;
        }
        if metric.is_held(profile) {
            let missing = profile.meta.recorded.inherited.filter(|inherited| inherited.bytes > 0);
            self.high += missing.map_or(0.0, |inherited| match metric {
                Metric::InuseObjects => f64::INFINITY,
                _ => inherited.bytes as f64,
            });
            self.high += match metric {
                Metric::InuseObjects => losses.untracked_blocks as f64,
                _ => losses.untracked_bytes as f64,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::metric::Unit;
    use crate::model::{ExtraColumn, Thread};
    use crate::query::{Filter, Regex};
    use crate::unattributed::Cause;
    use crate::{Began, Recorded};

    fn program() -> Profile {
        let mut profile = fixture::profile("main;f 100 2\nmain;lost 30 3");
        for function in &mut profile.functions {
            if function.name == "lost" {
                function.name = Cause::Stacks.frame().to_owned();
            }
        }
        profile
    }

    fn verdicts(profile: &Profile, query: &Query, limits: [f64; 3]) -> [LimitCheck; 3] {
        limits.map(|limit| of_total(profile, None, query, false).against(limit))
    }

    #[test]
    fn unattributed_bytes_matter_only_to_filters() {
        use LimitCheck::{Broken, Kept, Unknown};
        let profile = program();
        assert_eq!(verdicts(&profile, &Query::default(), [129.0, 130.0, 131.0]), [Broken, Kept, Kept]);
        let focus = Filter { focus: Regex::new("^f$").ok(), ..Filter::default() };
        let query = Query { filter: focus, ..Query::default() };
        assert_eq!(verdicts(&profile, &query, [69.0, 100.0, 130.0]), [Broken, Unknown, Kept]);
        let suppressed = of_total(&profile, None, &Query::default(), true);
        assert_eq!([99.0, 129.0, 160.0].map(|limit| suppressed.against(limit)), [Broken, Unknown, Kept]);
    }

    #[test]
    fn untracked_blocks_raise_live_but_not_allocated_bytes() {
        use LimitCheck::{Broken, Kept, Unknown};
        let mut profile = program();
        profile.meta.losses.untracked_bytes = 70;
        profile.meta.peak_bytes = Some(150);
        assert_eq!(verdicts(&profile, &Query::default(), [129.0, 150.0, 200.0]), [Broken, Unknown, Kept]);
        let allocated = Query { metric: Metric::AllocSpace, ..Query::default() };
        assert_eq!(verdicts(&profile, &allocated, [129.0, 130.0, 150.0]), [Broken, Kept, Kept]);
        let peak = of_peak(&profile).unwrap();
        assert_eq!([149.0, 219.0, 220.0].map(|limit| peak.against(limit)), [Broken, Unknown, Kept]);
    }

    #[test]
    fn the_peak_of_several_threads_has_a_tolerance() {
        use LimitCheck::{Broken, Kept, Unknown};
        let mut profile = program();
        profile.meta.peak_bytes = Some(10 << 20);
        let mebibytes = |amount: f64| amount * f64::from(1 << 20);
        let check = |profile: &Profile| {
            [9.9, 10.1, 10.3].map(|limit| of_peak(profile).unwrap().against(mebibytes(limit)))
        };
        assert_eq!(check(&profile), [Broken, Kept, Kept]);
        let values = vec![1.0; profile.samples.len()];
        profile.extra.push(ExtraColumn { name: column::PEAK_SPACE.into(), unit: Unit::Bytes, values });
        let thread = |tid| Thread { tid, number: tid, name: String::new() };
        profile.threads = vec![thread(1), thread(2)];
        assert_eq!(check(&profile), [Broken, Unknown, Kept]);
    }

    #[test]
    fn a_late_start_hides_any_amount() {
        use LimitCheck::{Broken, Kept, Unknown};
        let mut profile = program();
        profile.meta.recorded.began = Began::WithProgram;
        profile.meta.peak_bytes = Some(150);
        assert_eq!(verdicts(&profile, &Query::default(), [129.0, 130.0, 1e9]), [Broken, Kept, Kept]);
        profile.meta.recorded.began = Began::Late { after_ns: 1 };
        assert_eq!(verdicts(&profile, &Query::default(), [129.0, 130.0, 1e9]), [Broken, Unknown, Unknown]);
        let allocations = Query { metric: Metric::AllocObjects, ..Query::default() };
        assert_eq!(verdicts(&profile, &allocations, [4.0, 5.0, 1e9]), [Broken, Unknown, Unknown]);
        assert_eq!(of_peak(&profile).unwrap().against(1e9), Unknown);
        profile.meta.recorded = Recorded { began: Began::Never, ..Recorded::default() };
        assert_eq!(verdicts(&profile, &Query::default(), [129.0, 130.0, 1e9]), [Broken, Unknown, Unknown]);
    }

    #[test]
    fn dropped_events_leave_bytes_open_and_bound_counts() {
        let mut profile = program();
        profile.meta.losses.dropped_events = 2;
        assert_eq!(of_total(&profile, None, &Query::default(), false).against(1e18), LimitCheck::Unknown);
        let allocations = Query { metric: Metric::AllocObjects, ..Query::default() };
        let bounds = of_total(&profile, None, &allocations, false);
        assert_eq!((bounds.low, bounds.high), (5.0, 7.0));
    }
}
