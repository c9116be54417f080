//! A chart for the terminal: columns of eighth blocks under a scale.

use heapwise_profile::recording::Timeline;

use super::rate::Rates;
use heapwise_profile::quantity;

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Live bytes over time in `width` columns and `height` rows; the peak is marked below.
#[must_use]
pub fn chart(timeline: &Timeline, width: usize, height: usize) -> String {
    let scale_width = 10;
    let columns = columns(timeline, width.saturating_sub(scale_width + 2).max(10));
    let highest = columns.iter().copied().max().unwrap_or(0).max(1);
    let mut out = String::new();
    for row in (0..height).rev() {
        let label = if row + 1 == height { quantity::bytes(highest as f64) } else { String::new() };
        out += &format!("{label:>scale_width$} ┤");
        for value in &columns {
            let eighths = (*value as u128 * (height * 8) as u128).div_ceil(u128::from(highest)) as usize;
            out.push(EIGHTHS[eighths.saturating_sub(row * 8).min(8)]);
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    let (first, end) = span(timeline);
    let axis = format!("{first} ms");
    let right = format!("{end} ms");
    let gap = columns.len().saturating_sub(axis.len() + right.len());
    out += &format!("{:>scale_width$} └{}\n", "0", "─".repeat(columns.len()));
    out += &format!("{:scale_width$}  {axis}{:gap$}{right}\n", "", "");
    if let Some(peak) = timeline.peak() {
        let live = quantity::bytes(peak.max_live_bytes as f64);
        out += &format!("{:scale_width$}  peak {live} after {} ms\n", "", peak.start_ms);
    }
    out + &rate_row(timeline, columns.len(), scale_width)
}

/// The allocation rate in one row; nothing where no block was allocated.
fn rate_row(timeline: &Timeline, width: usize, scale_width: usize) -> String {
    let rates = Rates::new(timeline, width);
    if rates.highest <= 0.0 {
        return String::new();
    }
    let eighth = |(_, rate): &(u64, f64)| EIGHTHS[(8.0 * rate / rates.highest).ceil().min(8.0) as usize];
    let bars: String = rates.points.iter().map(eighth).collect();
    let name = "allocated";
    format!("{name:>scale_width$} ┤{}  up to {}\n", bars.trim_end(), rates.label())
}

fn span(timeline: &Timeline) -> (u64, u64) {
    let first = timeline.steps.first().map_or(0, |step| step.start_ms);
    (first, timeline.steps.last().map_or(0, |step| step.start_ms + timeline.step_ms))
}

/// The highest live bytes of each of at most `count` equal parts.
fn columns(timeline: &Timeline, count: usize) -> Vec<u64> {
    let steps = timeline.steps.len();
    let count = count.min(steps);
    (0..count)
        .map(|column| {
            let part = &timeline.steps[column * steps / count..((column + 1) * steps).div_ceil(count)];
            part.iter().map(|step| step.max_live_bytes).max().unwrap_or(0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapwise_profile::recording::Step;

    #[test]
    fn a_climb_fills_more_and_more() {
        let step = |n: u64| Step {
            start_ms: n * 100,
            max_live_bytes: n * 1024,
            alloc_bytes: 1024 * (16 - n),
            ..Step::default()
        };
        let timeline = Timeline { step_ms: 100, steps: (0..=16).map(step).collect() };
        let drawn = chart(&timeline, 60, 2);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "  16.0 KiB ┤         ▁▂▃▄▅▆▇█");
        assert_eq!(lines[1], "           ┤ ▁▂▃▄▅▆▇█████████");
        assert_eq!(lines[4].trim(), "peak 16.0 KiB after 1600 ms");
        assert_eq!(lines[5], " allocated ┤██▇▇▆▆▅▅▄▄▃▃▂▂▁▁  up to 160 KiB/s");
    }
}
