//! A picture of the heap over time: live bytes as an area, resident bytes and allocation rate as lines, the
//! peak and marks named.

use heapwise_profile::recording::{MarkAt, Step, Timeline};

use crate::amount::human_bytes;

/// What the picture shows besides the timeline.
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

/// Points drawn at most: more than there are pixels only make the file larger.
const MOST_POINTS: usize = 2000;

/// Draws the picture as SVG.
#[must_use]
pub fn svg(timeline: &Timeline, picture: &Picture<'_>) -> String {
    let plot = Plot::new(timeline);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    out += &text(LEFT, 24.0, "start", "font-size=\"16\"", &picture.title);
    plot.grid(&mut out);
    plot.area(&mut out);
    plot.line(&mut out, "#888", "stroke-dasharray=\"4 3\"", |step| plot.y_bytes(step.rss_bytes));
    plot.line(&mut out, "#d55e00", "stroke-opacity=\"0.7\"", |step| plot.y_rate(plot.rate(step)));
    for mark in picture.marks {
        plot.mark(&mut out, mark.ms, &mark.name, "#009e73");
    }
    if let Some(peak) = timeline.peak() {
        let label = format!("peak {}", human_bytes(peak.max_live_bytes as f64));
        plot.mark(&mut out, peak.start_ms, &label, "#0072b2");
    }
    plot.legend(&mut out);
    out + "</svg>\n"
}

struct Plot<'a> {
    steps: Vec<&'a Step>,
    step_ms: u64,
    first_ms: u64,
    end_ms: u64,
    most_bytes: f64,
    most_rate: f64,
}

impl<'a> Plot<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        // Of each group the step with the most live bytes stands for all: no peak is lost.
        let group = timeline.steps.len().div_ceil(MOST_POINTS).max(1);
        let highest = |steps: &'a [Step]| steps.iter().max_by_key(|step| step.max_live_bytes);
        let steps: Vec<&Step> = timeline.steps.chunks(group).filter_map(highest).collect();
        let mut plot = Self {
            first_ms: timeline.steps.first().map_or(0, |step| step.start_ms),
            end_ms: timeline.steps.last().map_or(1, |step| step.start_ms + timeline.step_ms),
            step_ms: timeline.step_ms.max(1),
            steps,
            most_bytes: 1.0,
            most_rate: 1.0,
        };
        let bytes = plot.steps.iter().map(|step| step.max_live_bytes.max(step.rss_bytes)).max();
        plot.most_bytes = bytes.unwrap_or(1).max(1) as f64 * 1.05;
        plot.most_rate = plot.steps.iter().map(|step| plot.rate(step)).fold(1.0, f64::max) * 1.05;
        plot
    }

    /// Bytes allocated a second.
    fn rate(&self, step: &Step) -> f64 {
        step.alloc_bytes as f64 * 1000.0 / self.step_ms as f64
    }

    fn x(&self, ms: u64) -> f64 {
        let share = ms.saturating_sub(self.first_ms) as f64 / (self.end_ms - self.first_ms).max(1) as f64;
        LEFT + share.min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(share: f64) -> f64 {
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    fn y_bytes(&self, bytes: u64) -> f64 {
        Self::y(bytes as f64 / self.most_bytes)
    }

    fn y_rate(&self, rate: f64) -> f64 {
        Self::y(rate / self.most_rate)
    }

    fn grid(&self, out: &mut String) {
        for part in 0..=4u8 {
            let share = f64::from(part) / 4.0;
            let y = Self::y(share);
            *out += &format!(
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\n",
                WIDTH - RIGHT
            );
            *out += &text(LEFT - 6.0, y + 4.0, "end", "", &human_bytes(self.most_bytes * share));
            let rate = format!("{}/s", human_bytes(self.most_rate * share));
            *out += &text(WIDTH - RIGHT + 6.0, y + 4.0, "start", "fill=\"#d55e00\"", &rate);
            let ms = self.first_ms + (self.end_ms - self.first_ms) * u64::from(part) / 4;
            *out += &text(self.x(ms), HEIGHT - BOTTOM + 18.0, "middle", "", &format!("{ms} ms"));
        }
    }

    fn points(&self, y: impl Fn(&Step) -> f64) -> String {
        let point = |step: &&Step| format!("{:.1},{:.1}", self.x(step.start_ms), y(step));
        self.steps.iter().map(point).collect::<Vec<_>>().join(" ")
    }

    fn area(&self, out: &mut String) {
        let floor = Self::y(0.0);
        let last = self.steps.last().map_or(0, |step| step.start_ms);
        *out += &format!(
            "<polygon fill=\"#0072b2\" fill-opacity=\"0.35\" stroke=\"#0072b2\" points=\"{:.1},{floor} {} {:.1},{floor}\"/>\n",
            self.x(self.first_ms),
            self.points(|step| self.y_bytes(step.max_live_bytes)),
            self.x(last),
        );
    }

    fn line(&self, out: &mut String, colour: &str, style: &str, y: impl Fn(&Step) -> f64) {
        let points = self.points(y);
        *out += &format!("<polyline fill=\"none\" stroke=\"{colour}\" {style} points=\"{points}\"/>\n");
    }

    fn mark(&self, out: &mut String, ms: u64, label: &str, colour: &str) {
        let (x, top, floor) = (self.x(ms), TOP - 6.0, Self::y(0.0));
        *out += &format!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{floor}\" stroke=\"{colour}\" stroke-dasharray=\"2 3\"/>\n"
        );
        let anchor = if x > WIDTH / 2.0 { "end" } else { "start" };
        *out += &text(x, top - 2.0, anchor, &format!("fill=\"{colour}\""), label);
    }

    fn legend(&self, out: &mut String) {
        let entries = [("live bytes", "#0072b2"), ("resident", "#888"), ("allocated a second", "#d55e00")];
        for (place, (label, colour)) in entries.iter().enumerate() {
            let x = LEFT + 160.0 * place as f64;
            *out += &format!(
                "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\n",
                HEIGHT - 26.0
            );
            *out += &text(x + 18.0, HEIGHT - 16.0, "start", "", label);
        }
    }
}

fn text(x: f64, y: f64, anchor: &str, style: &str, content: &str) -> String {
    let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{content}</text>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_survives_thinning_and_names_are_escaped() {
        let step = |n: u64| Step {
            start_ms: n * 10,
            max_live_bytes: if n == 7777 { 1 << 30 } else { 1000 },
            ..Step::default()
        };
        let timeline = Timeline { step_ms: 10, steps: (0..10_000).map(step).collect() };
        let marks = [MarkAt { ms: 500, name: "a<b".into() }];
        let drawn = svg(&timeline, &Picture { title: "t & u".into(), marks: &marks });
        assert!(drawn.contains("peak 1.00GB") && drawn.contains("a&lt;b") && drawn.contains("t &amp; u"));
        let top = Plot::new(&timeline).y_bytes(1 << 30);
        assert!(drawn.contains(&format!(",{top:.1}")), "the peak is drawn");
    }
}
