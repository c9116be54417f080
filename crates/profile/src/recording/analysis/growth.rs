//! Places whose live bytes rise steadily: the shape of a leak or of a cache that is never emptied.
//!
//! Memory is looked at up to the peak, because most programs free at their end. A place grows when,
//! over the second half of that time, its live bytes fit a rising line, and the rise is a tenth of
//! what it held and a hundredth of the peak.

use super::{Evidence, Site};
use crate::finding::{Finding, FindingKind, RankUnit};
use crate::recording::statistics::POINTS;

/// Correlation of live bytes with time from which a line fits.
const LEAST_CORRELATION: f64 = 0.9;
/// Fewer points make no line.
const LEAST_POINTS: usize = 4;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let peak = evidence.timeline.peak().map_or(0, |step| step.max_live_bytes);
    let least = (peak as f64 / 100.0).max(1.0);
    let (points, until_ms) = points_to_peak(evidence.statistics.span_ms, evidence.peak_ms);
    let gain = |site: &Site| gained(&site.live_bytes[..points], least);
    let places = evidence.largest(RankUnit::Bytes, gain);
    let values = vec![
        ("sites", places.len() as f64),
        ("bytes", evidence.sum(gain) as f64),
        ("from_ms", start_of_half(evidence.statistics.span_ms, points) as f64),
        ("until_ms", until_ms as f64),
    ];
    (!places.is_empty()).then_some(Finding {
        kind: FindingKind::GrowingSites,
        values,
        places,
        rows: Vec::new(),
    })
}

/// The number of points up to the peak, and the time of the last of them. An early peak is that of
/// a start; then all points count.
fn points_to_peak((first, last): (u64, u64), peak_ms: u64) -> (usize, u64) {
    let part_ms = ((last - first) as f64 / POINTS as f64).max(1.0);
    // A point is the end of its part. The point after the peak does not count: by then the program
    // may have freed.
    let before = (peak_ms.saturating_sub(first) as f64 / part_ms) as usize;
    match before.min(POINTS) {
        early if early < POINTS / 2 => (POINTS, last),
        points => (points, first + (points as f64 * part_ms) as u64),
    }
}

/// The first point of the second half of so many.
fn half_of(points: usize) -> usize {
    points / 2 - 1
}

/// The time of the first point of the second half.
fn start_of_half((first, last): (u64, u64), points: usize) -> u64 {
    first + (last - first) * (half_of(points) as u64 + 1) / POINTS as u64
}

/// The rise of the line through the second half, if it is one.
fn gained(live: &[u64], least: f64) -> u64 {
    let half = &live[half_of(live.len())..];
    if half.len() < LEAST_POINTS {
        return 0;
    }
    let (rise, correlation) = line(half);
    let is_large = rise >= least && rise >= half[0] as f64 / 10.0;
    if is_large && correlation >= LEAST_CORRELATION { rise as u64 } else { 0 }
}

/// The rise of the least-squares line from the first to the last value, and the correlation.
fn line(values: &[u64]) -> (f64, f64) {
    let mean = |values: &mut dyn Iterator<Item = f64>, n: usize| values.sum::<f64>() / n as f64;
    let n = values.len();
    let (time, value) =
        (mean(&mut (0..n).map(|t| t as f64), n), mean(&mut values.iter().map(|v| *v as f64), n));
    let moments = values.iter().enumerate().fold((0.0, 0.0, 0.0), |(tt, tv, vv), (t, v)| {
        let (t, v) = (t as f64 - time, *v as f64 - value);
        (tt + t * t, tv + t * v, vv + v * v)
    });
    let (tt, tv, vv) = moments;
    let correlation = if vv > 0.0 { tv / (tt * vv).sqrt() } else { 0.0 };
    (tv / tt * (n - 1) as f64, correlation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(value: fn(u64) -> u64) -> u64 {
        gained(&std::array::from_fn::<u64, POINTS, _>(|n| value(n as u64)), 100.0)
    }

    #[test]
    fn what_is_freed_after_the_peak_does_not_count() {
        assert_eq!(points_to_peak((100, 1700), 1500), (14, 1500));
        assert_eq!(points_to_peak((100, 1700), 1700), (POINTS, 1700));
        assert_eq!(points_to_peak((100, 1700), 300), (POINTS, 1700), "the peak of a start");
        assert_eq!(points_to_peak((0, 0), 0), (POINTS, 0));
        assert_eq!(start_of_half((100, 1700), 14), 800);
        let mut live: Vec<u64> = (0..14).map(|n| n * 1000).collect();
        assert_eq!(gained(&live, 100.0), 7000);
        live.extend([0, 0]);
        assert_eq!(gained(&live, 100.0), 0, "with the end of the program");
    }

    #[test]
    fn a_leak_grows_a_cache_and_a_wave_do_not() {
        assert_eq!(gain(|n| n * 1000), 8000);
        assert_eq!(gain(|n| 20_000 + n * 1000), 8000, "beside what it held before");
        assert_eq!(gain(|_| 50_000), 0, "constant");
        assert_eq!(gain(|n| n.min(6) * 1000), 0, "filled once");
        assert_eq!(gain(|n| if n % 4 == 3 { 9000 } else { 0 }), 0, "wave");
        assert_eq!(gain(|n| n), 0, "too little");
        assert_eq!(gain(|n| 100_000 - n * 1000), 0, "falling");
    }
}
