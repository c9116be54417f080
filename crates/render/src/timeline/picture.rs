//! A picture of the heap over time: live bytes as an area, resident bytes and allocation rate as
//! lines, the peak and marks named.

use heapwise_profile::recording::{MarkAt, Step, Timeline};

use super::rate::Rates;

use heapwise_profile::quantity;

/// Contents of the picture besides the timeline.
#[derive(Debug, Clone, Default)]
pub struct Picture<'a> {
    /// Above it.
    pub title: String,
    /// Named moments.
    pub marks: &'a [MarkAt],
}

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 500.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;

/// About as many times are written below.
const TIMES: f64 = 8.0;

/// Points drawn at most: more than there are pixels only make the file larger.
const MOST_POINTS: usize = 2000;

/// Draws the picture as SVG.
#[must_use]
pub fn svg(timeline: &Timeline, picture: &Picture<'_>) -> String {
    let plot = Plot::new(timeline);
    let mut out = opening(&picture.title);
    plot.axes.grid(&mut out);
    plot.area(&mut out);
    let resident = |step: &Step| (step.rss_bytes > 0).then(|| plot.axes.y(step.rss_bytes));
    plot.line(&mut out, "#888", "stroke-dasharray=\"4 3\"", resident);
    Rates::new(timeline, MOST_POINTS).draw(&mut out, &plot.axes);
    for mark in picture.marks {
        plot.mark(&mut out, mark.ms, &mark.name, "#009e73");
    }
    if let Some(peak) = timeline.peak() {
        let label = format!("peak {}", quantity::bytes(peak.max_live_bytes as f64));
        plot.mark(&mut out, peak.start_ms, &label, "#0072b2");
    }
    legend(&mut out, &[("live bytes", "#0072b2"), ("resident", "#888"), RATE_LEGEND]);
    out + "</svg>\n"
}

/// Color of the allocation rate.
pub(super) const RATE_COLOR: &str = "#d55e00";
/// The allocation rate in a legend.
pub(super) const RATE_LEGEND: (&str, &str) = ("allocated a second", RATE_COLOR);

/// Rates on the right, up to `most`.
pub(super) fn rate_label(out: &mut String, most: f64) {
    for share in QUARTERS {
        let rate = format!("{}/s", quantity::bytes(most * share));
        let style = format!("fill=\"{RATE_COLOR}\"");
        *out += &text(WIDTH - RIGHT + 6.0, height(share) + 4.0, "start", &style, &rate);
    }
}

/// The head of a picture, with its title.
pub(super) fn opening(title: &str) -> String {
    let head = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    head + &text(LEFT, 24.0, "start", "font-size=\"16\"", title)
}

/// Names and colors below a picture.
pub(super) fn legend(out: &mut String, entries: &[(&str, &str)]) {
    let distance = (WIDTH - LEFT) / entries.len().max(1) as f64;
    for (place, (label, color)) in entries.iter().enumerate() {
        let x = LEFT + distance.min(160.0) * place as f64;
        *out += &format!(
            "<rect x=\"{x:.1}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{color}\"/>\n",
            HEIGHT - 26.0
        );
        *out += &text(x + 18.0, HEIGHT - 16.0, "start", "", label);
    }
}

/// Time and bytes as places in a picture.
pub(super) struct Axes {
    first_ms: u64,
    end_ms: u64,
    most_bytes: f64,
}

impl Axes {
    /// For times from `first_ms` to `end_ms` and up to `highest` bytes.
    pub(super) fn new(first_ms: u64, end_ms: u64, highest: u64) -> Self {
        Self { first_ms, end_ms, most_bytes: round_bytes(highest.max(1) as f64) }
    }

    pub(super) fn x(&self, ms: u64) -> f64 {
        let share = ms.saturating_sub(self.first_ms) as f64 / (self.end_ms - self.first_ms).max(1) as f64;
        LEFT + share.min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    pub(super) fn y(&self, bytes: u64) -> f64 {
        height(bytes as f64 / self.most_bytes)
    }

    pub(super) fn grid(&self, out: &mut String) {
        for share in QUARTERS {
            let y = height(share);
            *out += &format!(
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\n",
                WIDTH - RIGHT
            );
            *out += &text(LEFT - 6.0, y + 4.0, "end", "", &quantity::bytes(self.most_bytes * share));
        }
        let length = (self.end_ms - self.first_ms).max(1);
        let distance = round(length as f64 / TIMES).max(1.0) as u64;
        for ms in (self.first_ms.next_multiple_of(distance)..=self.end_ms).step_by(distance as usize) {
            *out += &text(self.x(ms), HEIGHT - BOTTOM + 18.0, "middle", "", &moment(ms, distance));
        }
    }
}

/// Where lines of the grid are.
const QUARTERS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// The place of a share of the height.
pub(super) fn height(share: f64) -> f64 {
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}

struct Plot<'a> {
    steps: Vec<&'a Step>,
    axes: Axes,
}

impl<'a> Plot<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        // Of each group the step with the most live bytes represents all: no peak is lost.
        let group = timeline.steps.len().div_ceil(MOST_POINTS).max(1);
        let highest = |steps: &'a [Step]| steps.iter().max_by_key(|step| step.max_live_bytes);
        let steps: Vec<&Step> = timeline.steps.chunks(group).filter_map(highest).collect();
        let bytes = steps.iter().map(|step| step.max_live_bytes.max(step.rss_bytes)).max();
        let first_ms = timeline.steps.first().map_or(0, |step| step.start_ms);
        let end_ms = timeline.steps.last().map_or(1, |step| step.start_ms + timeline.step_ms);
        let axes = Axes::new(first_ms, end_ms, bytes.unwrap_or(1));
        Self { steps, axes }
    }

    /// Points of the steps that have a height.
    fn points(&self, y: impl Fn(&Step) -> Option<f64>) -> String {
        let point = |step: &&Step| Some(format!("{:.1},{:.1}", self.axes.x(step.start_ms), y(step)?));
        self.steps.iter().filter_map(point).collect::<Vec<_>>().join(" ")
    }

    fn area(&self, out: &mut String) {
        let floor = height(0.0);
        let last = self.steps.last().map_or(0, |step| step.start_ms);
        *out += &format!(
            "<polygon fill=\"#0072b2\" fill-opacity=\"0.35\" stroke=\"#0072b2\" points=\"{:.1},{floor} {} {:.1},{floor}\"/>\n",
            self.axes.x(self.axes.first_ms),
            self.points(|step| Some(self.axes.y(step.max_live_bytes))),
            self.axes.x(last),
        );
    }

    fn line(&self, out: &mut String, color: &str, style: &str, y: impl Fn(&Step) -> Option<f64>) {
        let points = self.points(y);
        *out += &format!("<polyline fill=\"none\" stroke=\"{color}\" {style} points=\"{points}\"/>\n");
    }

    fn mark(&self, out: &mut String, ms: u64, label: &str, color: &str) {
        let (x, top, floor) = (self.axes.x(ms), TOP - 6.0, height(0.0));
        *out += &format!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{floor}\" stroke=\"{color}\" stroke-dasharray=\"2 3\"/>\n"
        );
        let anchor = if x > WIDTH / 2.0 { "end" } else { "start" };
        *out += &text(x, top - 2.0, anchor, &format!("fill=\"{color}\""), label);
    }
}

/// The next number up that is round: one or two digits that people count by.
fn round(value: f64) -> f64 {
    const ROUND: [f64; 9] = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
    let power = 10f64.powf(value.max(1e-9).log10().floor());
    let digits = ROUND.into_iter().find(|digits| digits * power >= value * (1.0 - 1e-9));
    digits.unwrap_or(10.0) * power
}

/// The end of an axis of four parts, each of them a round number of its unit.
pub(super) fn round_bytes(most: f64) -> f64 {
    let part = (most / 4.0).max(1.0);
    let unit = 1024f64.powf(part.log(1024.0).floor());
    4.0 * unit * round(part / unit)
}

/// A moment, in seconds where all of them are whole ones.
fn moment(ms: u64, distance_ms: u64) -> String {
    if distance_ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") }
}

fn text(x: f64, y: f64, anchor: &str, style: &str, content: &str) -> String {
    let content = crate::svg::escape(content);
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{content}</text>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_round() {
        assert_eq!(round_bytes(22.1 * 1_048_576.0), 24.0 * 1_048_576.0);
        assert_eq!(round_bytes(1.0), 4.0);
        assert_eq!([round(7.0), round(8.0), round(81.0), round(0.25)], [8.0, 8.0, 100.0, 0.25]);
        assert_eq!((moment(1500, 500), moment(4000, 2000)), ("1500 ms".into(), "4 s".into()));
    }

    #[test]
    fn the_peak_survives_thinning_and_names_are_escaped() {
        let step = |n: u64| Step {
            start_ms: n * 10,
            max_live_bytes: if n == 7777 { 1 << 30 } else { 1000 },
            ..Step::default()
        };
        let timeline = Timeline { step_ms: 10, steps: (0..10_000).map(step).collect() };
        let marks = [MarkAt { ms: 500, name: "a<b".into(), number: 1 }];
        let drawn = svg(&timeline, &Picture { title: "t & u".into(), marks: &marks });
        assert!(drawn.contains("peak 1.00 GiB") && drawn.contains("a&lt;b") && drawn.contains("t &amp; u"));
        let top = Plot::new(&timeline).axes.y(1 << 30);
        assert!(drawn.contains(&format!(",{top:.1}")), "the peak is drawn");
    }
}
