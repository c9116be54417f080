//! Moments of a recording as users type them: `305ms`, `peak`, `end`, `50%`, `A..B`, `peak:A..B`, a
//! mark's name.

use heapwise_profile::recording::{MarkAt, Moment, Timeline, Window};

use crate::failure::Outcome;
use crate::input_error;
use heapwise_profile::quantity::parse_duration;

/// A time selects the peak within its step of this length, unless `--step` says otherwise.
pub const DEFAULT_STEP_MS: u64 = 100;

/// Before a range: its peak, and not what it left behind.
const PEAK_OF: &str = "peak:";

/// A part of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The heap at a moment.
    At(Moment),
    /// What was allocated within a window and not freed within it.
    Within(Window),
}

/// What names of moments refer to.
#[derive(Debug, Clone, Copy)]
pub struct Times<'a> {
    /// First and last millisecond.
    pub span_ms: (u64, u64),
    /// Named moments.
    pub marks: &'a [MarkAt],
}

/// Parses `text`; a single time selects the peak within its step.
pub fn parse(text: &str, times: Times<'_>, step_ms: u64) -> Outcome<Part> {
    // A mark may be named like a range: its name comes first.
    let is_mark = times.marks.iter().any(|mark| mark.name == text);
    if !is_mark
        && let Some(range) = text.strip_prefix(PEAK_OF)
        && let Some(window) = window(range, times)?
    {
        return Ok(Part::At(Moment::Highest(window)));
    }
    if !is_mark && let Some(window) = window(text, times)? {
        return Ok(Part::Within(window));
    }
    Ok(Part::At(match text {
        "peak" => Moment::Peak,
        "end" => Moment::End,
        _ => {
            let ms = time(text, times)?;
            let step_ms = Timeline::step_ms(step_ms);
            let from_ms = (ms - ms % step_ms).min(u64::MAX - step_ms);
            Moment::Highest(Window { from_ms, to_ms: from_ms + step_ms })
        }
    }))
}

/// `A..B`, either end of which may be omitted; `None` for anything else.
fn window(text: &str, times: Times<'_>) -> Outcome<Option<Window>> {
    let Some((from, to)) = text.split_once("..") else { return Ok(None) };
    let bound = |text: &str, open: u64| if text.is_empty() { Ok(open) } else { time(text, times) };
    let (from_ms, to_ms) = (bound(from, 0)?, bound(to, u64::MAX)?);
    if from_ms > to_ms {
        return Err(input_error!("`{text}` ends before it starts"));
    }
    Ok(Some(Window { from_ms, to_ms }))
}

/// A time in milliseconds since the start of the recording.
fn time(text: &str, times: Times<'_>) -> Outcome<u64> {
    let (first, end) = times.span_ms;
    match text {
        "start" => return Ok(first),
        "end" => return Ok(end),
        _ => {}
    }
    if let Some(percent) = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok()) {
        let part = end.saturating_sub(first) as f64 * percent.clamp(0.0, 100.0) / 100.0;
        return Ok(first.saturating_add(part as u64));
    }
    if let Some(mark) = times.marks.iter().find(|mark| mark.name == text) {
        return Ok(mark.ms);
    }
    // A bare number is milliseconds, as in the gs driver.
    if let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    parse_duration(text).map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).map_err(|_| {
        let marks: Vec<&str> = times.marks.iter().map(|mark| &*mark.name).collect();
        let known =
            if marks.is_empty() { String::new() } else { format!(", marks are {}", marks.join(", ")) };
        input_error!("`{text}` is not a moment; try 305ms, peak, end, 50%, 1s..2s, peak:1s..2s{known}")
    })
}
