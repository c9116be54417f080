//! Places whose live bytes only ever go up: the shape of a leak in a running program.
//!
//! A place grows when, over the second half of the recording, its live bytes never fell below what
//! they were a step before by more than a tenth, ended at least half as high again as they were at
//! the middle, and gained at least one part in a hundred of the peak.

use super::{Evidence, Finding, FindingKind, RankUnit, Site};
use crate::recording::statistics::POINTS;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let peak = evidence.timeline.peak().map_or(0, |step| step.max_live_bytes);
    let least = (peak / 100).max(1);
    let gain = |site: &Site| if grows(&site.live_bytes, least) { gained(&site.live_bytes) } else { 0 };
    let places = evidence.largest(RankUnit::Bytes, gain);
    let growing = evidence.sites().iter().filter(|site| gain(site) > 0).count();
    let total = evidence.sum(gain);
    (!places.is_empty()).then(|| Finding {
        kind: FindingKind::GrowingSites,
        values: vec![("sites", growing as f64), ("bytes", total as f64)],
        places,
        rows: Vec::new(),
    })
}

fn gained(live: &[u64; POINTS]) -> u64 {
    live[POINTS - 1].saturating_sub(live[POINTS / 2 - 1])
}

fn grows(live: &[u64; POINTS], least: u64) -> bool {
    let second_half = &live[POINTS / 2 - 1..];
    let (middle, end) = (second_half[0], live[POINTS - 1]);
    let steady = second_half.windows(2).all(|pair| pair[1] >= pair[0] - pair[0] / 10);
    steady && gained(live) >= least && end >= middle + middle / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_grows_a_cache_and_a_wave_do_not() {
        let shape = |value: fn(u64) -> u64| std::array::from_fn(|n| value(n as u64));
        assert!(grows(&shape(|n| n * 1000), 100));
        assert!(!grows(&shape(|_| 50_000), 100), "constant");
        assert!(!grows(&shape(|n| n.min(6) * 1000), 100), "filled once");
        assert!(!grows(&shape(|n| if n % 4 == 3 { 9000 } else { 0 }), 100), "wave");
        assert!(!grows(&shape(|n| n), 100), "too little");
    }
}
