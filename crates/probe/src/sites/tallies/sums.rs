//! The sums of each site, for dumps.

use super::counts::SiteKey;
use super::lists::{is_remote, remote};
use super::{TallyRef, get};
use crate::atomics::{AtomicU64, Ordering};
use crate::session::Session;

/// A site's sums over all threads that counted for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) site: SiteKey,
    pub(crate) allocs: u64,
    pub(crate) alloc_bytes: u64,
    pub(crate) live: u64,
    pub(crate) live_bytes: u64,
    /// Slack of the blocks ever allocated, and of those live; of a sampled site, estimated.
    pub(crate) slack: u64,
    pub(crate) live_slack: u64,
    /// Of a sampled site, [`TallyWeights`]: blocks and bytes ever, blocks and bytes live.
    pub(crate) estimates: [f64; 4],
}

/// Calls `with` for each site and allocating thread of this period.
pub(crate) fn each_sum(session: &Session, mut with: impl FnMut(&Sum)) {
    for number in 1..session.tallies.used() {
        let Some(counts) = get(session, number) else { continue };
        let site = counts.site();
        // Remote tallies are in the lists of those whose frees they count.
        if site.0 == 0 || !counts.is_of_period(&session.peak) || is_remote(session, number) {
            continue;
        }
        with(&sum(session, TallyRef { number, counts }));
    }
}

fn sum(session: &Session, tally: TallyRef) -> Sum {
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let mut frees = load(&tally.counts.frees);
    let mut freed_bytes = load(&tally.counts.freed_bytes);
    let allocs = load(&tally.counts.allocs);
    let alloc_bytes = load(&tally.counts.alloc_bytes);
    let slack = load(&tally.counts.alloc_slack);
    let mut freed_slack = load(&tally.counts.freed_slack);
    let mut estimates = estimates(session, tally);
    for number in remote(session, tally.number) {
        let Some(counts) = get(session, number) else { continue };
        frees = frees.wrapping_add(load(&counts.frees));
        freed_bytes = freed_bytes.wrapping_add(load(&counts.freed_bytes));
        freed_slack = freed_slack.wrapping_add(load(&counts.freed_slack));
        for (sum, part) in estimates.iter_mut().zip(self::estimates(session, TallyRef { number, counts })) {
            *sum += part;
        }
    }
    // Read while threads count: a free may be seen before its allocation.
    let live = |more: u64, less: u64| (more.wrapping_sub(less) as i64).max(0) as u64;
    Sum {
        site: tally.counts.site(),
        allocs,
        alloc_bytes,
        live: live(allocs, frees),
        live_bytes: live(alloc_bytes, freed_bytes),
        slack,
        live_slack: live(slack, freed_slack),
        estimates,
    }
}

/// Blocks and bytes ever, blocks and bytes live.
fn estimates(session: &Session, tally: TallyRef) -> [f64; 4] {
    let weights = tally.weights(session).filter(|_| tally.counts.site().rate() != 0);
    let Some(weights) = weights else { return [0.0; 4] };
    let [blocks, bytes, _, _, freed_blocks, freed_bytes, ..] =
        weights.each_ref().map(|word| f64::from_bits(word.load(Ordering::Relaxed)));
    [blocks, bytes, blocks - freed_blocks, bytes - freed_bytes]
}
