//! Blocks and bytes of a dump.

use crate::jemalloc::options::options;
use crate::record::sampler::Sampled;
use crate::session::Session;
use crate::sites::rates;
use crate::sites::tallies::{Sum, each_sum};

/// Blocks and bytes, live and ever.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) live: (u64, u64),
    pub(super) ever: (u64, u64),
}

impl Counts {
    pub(super) const fn new() -> Self {
        Self { live: (0, 0), ever: (0, 0) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.0 == 0 && self.ever.0 == 0
    }

    pub(super) fn add(&mut self, other: &Counts) {
        for (sum, one) in [(&mut self.live, other.live), (&mut self.ever, other.ever)] {
            *sum = (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1));
        }
    }

    /// The samples of a site as they were counted; what was freed only where that is wanted.
    pub(super) fn of(sum: &Sum) -> Counts {
        let [_, bytes, _, live_bytes] = sum.estimates;
        let ever = (sum.allocs, sum.alloc_bytes + unweighted(slack(sum).0, sum.alloc_bytes, bytes));
        let live = (sum.live, sum.live_bytes + unweighted(slack(sum).1, sum.live_bytes, live_bytes));
        Counts { live, ever: if options().accum { ever } else { (0, 0) } }
    }

    /// The weights of the samples.
    pub(super) fn estimated(sum: &Sum) -> Counts {
        if sum.site.rate() == 0 {
            return Counts::of(sum);
        }
        let [blocks, bytes, live_blocks, live_bytes] =
            usable_estimates(sum).map(|value| (value.max(0.0) + 0.5) as u64);
        let ever = if options().accum { (blocks, bytes) } else { (0, 0) };
        Counts { live: (live_blocks, live_bytes), ever }
    }

    /// Counts that jeprof, which scales by a block's mean size, turns into the estimates.
    pub(super) fn before_scaling(session: &Session, sum: &Sum) -> Counts {
        let rate = rates::of(&session.segment, sum.site.rate());
        let [blocks, bytes, live_blocks, live_bytes] = usable_estimates(sum);
        let unscaled = |blocks: f64, bytes: f64| {
            // jeprof divides by the number of blocks; of blocks without bytes nothing can be
            // scaled.
            if blocks < 0.5 || bytes < 0.5 {
                return (0, 0);
            }
            let scale = Sampled::new((bytes / blocks + 0.5) as u64, rate).blocks;
            (((blocks / scale + 0.5) as u64).max(1), (bytes / scale + 0.5) as u64)
        };
        let ever = if options().accum { unscaled(blocks, bytes) } else { (0, 0) };
        Counts { live: unscaled(live_blocks, live_bytes), ever }
    }
}

/// Slack of the blocks ever allocated and of those live, where bytes are usable ones.
fn slack(sum: &Sum) -> (u64, u64) {
    if options().usable { (sum.slack, sum.live_slack) } else { (0, 0) }
}

/// The estimates of a site, in usable bytes where that is wanted.
fn usable_estimates(sum: &Sum) -> [f64; 4] {
    let (slack, live_slack) = slack(sum);
    let [blocks, bytes, live_blocks, live_bytes] = sum.estimates;
    [blocks, bytes + slack as f64, live_blocks, live_bytes + live_slack as f64]
}

/// Slack of samples by themselves, where it is estimated with their weights.
fn unweighted(slack: u64, sampled_bytes: u64, estimated_bytes: f64) -> u64 {
    if estimated_bytes <= 0.0 {
        return slack;
    }
    (slack as f64 * (sampled_bytes as f64 / estimated_bytes) + 0.5) as u64
}

/// Calls `with` for each site and thread of this period that counted anything.
pub(super) fn each_counted(session: &Session, mut with: impl FnMut(&Sum)) {
    each_sum(session, |sum| {
        if sum.allocs != 0 {
            with(sum);
        }
    });
}
