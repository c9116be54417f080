//! Bytes allocated a second, over time.

use heapwise_profile::quantity;
use heapwise_profile::recording::Timeline;

use super::picture::{Axes, RATE_COLOR, height, rate_label, round_bytes};

/// Rates of equal parts of a timeline.
#[derive(Debug)]
pub(super) struct Rates {
    /// Milliseconds at the start of a part, and bytes a second in it.
    pub(super) points: Vec<(u64, f64)>,
    /// The highest rate.
    pub(super) highest: f64,
}

impl Rates {
    /// The rates of at most `most` parts.
    pub(super) fn new(timeline: &Timeline, most: usize) -> Self {
        let group = timeline.steps.len().div_ceil(most.max(1)).max(1);
        let points: Vec<(u64, f64)> = timeline
            .steps
            .chunks(group)
            .map(|steps| {
                let bytes = steps.iter().map(|step| step.alloc_bytes as f64).sum::<f64>();
                let ms = (steps.len() as u64 * timeline.step_ms).max(1) as f64;
                (steps[0].start_ms, bytes * 1000.0 / ms)
            })
            .collect();
        let highest = points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        Self { points, highest }
    }

    /// Draws the rates as a line with a scale of its own on the right.
    pub(super) fn draw(&self, out: &mut String, axes: &Axes) {
        let most = round_bytes(self.highest.max(1.0));
        rate_label(out, most);
        let point = |(ms, rate): &(u64, f64)| format!("{:.1},{:.1}", axes.x(*ms), height(rate / most));
        let points = self.points.iter().map(point).collect::<Vec<_>>().join(" ");
        *out += &format!(
            "<polyline fill=\"none\" stroke=\"{RATE_COLOR}\" stroke-opacity=\"0.7\" points=\"{points}\"/>\n"
        );
    }

    /// The highest rate in words.
    pub(super) fn label(&self) -> String {
        format!("{}/s", quantity::bytes(self.highest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapwise_profile::recording::Step;

    #[test]
    fn a_rate_is_the_mean_of_its_part() {
        let step = |n: u64| Step { start_ms: n * 100, alloc_bytes: n * 1000, ..Step::default() };
        let timeline = Timeline { step_ms: 100, steps: (0..4).map(step).collect() };
        assert_eq!(Rates::new(&timeline, 2).points, [(0, 5_000.0), (200, 25_000.0)]);
        assert_eq!(Rates::new(&timeline, 9).highest, 30_000.0);
        assert_eq!(Rates::new(&Timeline::default(), 9).points, []);
    }
}
