//! Moments of a recording as people type them: `305ms`, `peak`, `end`, `50%`, `A..B`,
//! `peak:A..B`, the name of a mark, `mark:NAME`.
//!
//! Names of marks are any text. A name comes before times and ranges; `peak` and `end` come before
//! names, and `mark:` comes before all.

use heapwise_profile::recording::{MarkAt, Point, PointInTime, TimeRange, Timeline};

use crate::failure::{Failure, Outcome};
use crate::input_error;
use heapwise_profile::quantity::parse_duration;

/// Default step length: a time selects the peak within its step.
pub const DEFAULT_STEP_MS: u64 = 100;

/// Before a range: its peak, and not what it left behind.
const PEAK_OF: &str = "peak:";
/// Before the name of a mark that means something else, too.
const MARK: &str = "mark:";
const RANGE: &str = "..";

/// A point in time or a window of a recording, with its words resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The heap at a point in time.
    At(PointInTime),
    /// What was allocated between two points and not freed between them.
    Between {
        /// From here on.
        from: Point,
        /// Up to here.
        to: Point,
    },
}

/// What the words of a point in time refer to.
#[derive(Debug, Clone, Copy)]
pub struct Times<'a> {
    /// First and last millisecond.
    pub span_ms: (u64, u64),
    /// Points that the program or a controller named.
    pub marks: &'a [MarkAt],
    /// The row of the timeline with most live bytes; `None` without a timeline.
    pub peak: Option<TimeRange>,
}

impl Times<'_> {
    /// The last millisecond that a time may name: the end of the step that the last event is in.
    fn last_ms(&self, step_ms: u64) -> u64 {
        self.span_ms.1.checked_next_multiple_of(step_ms).unwrap_or(u64::MAX)
    }
}

/// One end of a range.
#[derive(Debug, Clone, Copy)]
struct End {
    point: Point,
    ms: u64,
}

/// Which end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    From,
    To,
}

impl End {
    fn at(ms: u64) -> Self {
        Self { point: Point::Time(ms), ms }
    }
}

/// Resolves `text`; a single time selects the peak within its step.
pub fn parse(text: &str, times: Times<'_>, step_ms: u64) -> Outcome<Moment> {
    let step_ms = Timeline::step_ms(step_ms);
    match text {
        "peak" => return Ok(Moment::At(PointInTime::Peak)),
        "end" => return Ok(Moment::At(PointInTime::End)),
        _ => {}
    }
    if let Some(mark) = mark(text, times) {
        return Ok(Moment::At(PointInTime::At(mark.point())));
    }
    if let Some(range) = text.strip_prefix(PEAK_OF)
        && let Some((from, to)) = range_of(range, times, step_ms)?
    {
        return Ok(Moment::At(PointInTime::Highest(TimeRange { from_ms: from.ms, to_ms: to.ms })));
    }
    if let Some((from, to)) = range_of(text, times, step_ms)? {
        return Ok(Moment::Between { from: from.point, to: to.point });
    }
    let ms = time(text, times, step_ms)?;
    let from_ms = (ms - ms % step_ms).min(u64::MAX - step_ms);
    Ok(Moment::At(PointInTime::Highest(TimeRange { from_ms, to_ms: from_ms + step_ms })))
}

/// The first mark of that name.
fn mark<'a>(text: &str, times: Times<'a>) -> Option<&'a MarkAt> {
    let name = text.strip_prefix(MARK);
    let named = |name: &str| times.marks.iter().find(|mark| mark.name == name);
    named(text).or_else(|| named(name?))
}

/// `A..B`, either end of which may be left out; none when it is something else. Names of marks may
/// hold `..`, too: the first split counts that has something known on both sides.
fn range_of(text: &str, times: Times<'_>, step_ms: u64) -> Outcome<Option<(End, End)>> {
    let mut result = Ok(None);
    for (at, _) in text.match_indices(RANGE) {
        let (from, to) = (&text[..at], &text[at + RANGE.len()..]);
        let ends =
            |from, to| Ok((end(from, Side::From, times, step_ms)?, end(to, Side::To, times, step_ms)?));
        match ends(from, to) {
            Ok((from, to)) if from.ms > to.ms => {
                return Err(input_error!("`{}` ends before it begins", text));
            }
            Ok(ends) => return Ok(Some(ends)),
            Err(error) => result = Err(error),
        }
    }
    result
}

fn end(text: &str, side: Side, times: Times<'_>, step_ms: u64) -> Outcome<End> {
    match (text, side, times.peak) {
        ("", Side::From, _) => return Ok(End::at(0)),
        ("" | "end", Side::To, _) => return Ok(End::at(u64::MAX)),
        ("end", Side::From, _) => return Ok(End::at(times.span_ms.1)),
        // A window from the peak on begins with the peak's row of the timeline, a window up to the
        // peak ends with it.
        ("peak", Side::From, Some(row)) => return Ok(End::at(row.from_ms)),
        ("peak", Side::To, Some(row)) => return Ok(End::at(row.to_ms)),
        _ => {}
    }
    match mark(text, times) {
        Some(mark) => Ok(End { point: mark.point(), ms: mark.ms }),
        None => time(text, times, step_ms).map(End::at),
    }
}

/// A time in milliseconds since the start of the recording.
fn time(text: &str, times: Times<'_>, step_ms: u64) -> Outcome<u64> {
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
    // A bare number is milliseconds, as the gs driver has it.
    let typed = text.parse().ok();
    let parsed = || parse_duration(text).ok().map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let Some(ms) = typed.or_else(parsed) else {
        return Err(unknown(text, times));
    };
    match ms > times.last_ms(step_ms) {
        true => {
            Err(input_error!("`{}` is after the end: the recording covers {} ms to {} ms", text, first, end))
        }
        false => Ok(ms),
    }
}

fn unknown(text: &str, times: Times<'_>) -> Failure {
    let marks: Vec<&str> = times.marks.iter().map(|mark| &*mark.name).collect();
    let known = if marks.is_empty() { String::new() } else { format!(", marks are {}", marks.join(", ")) };
    input_error!("`{}` is no moment; try 305ms, peak, end, 50%, 1s..2s, peak:1s..2s{}", text, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Vec<MarkAt> {
        let names = [(70, "loaded", 1), (90, "peak", 2), (95, "a..b", 3), (80, "50%", 0), (99, "x/y@z", 4)];
        names.map(|(ms, name, number)| MarkAt { ms, name: name.into(), number }).into()
    }

    fn parsed(text: &str) -> Option<Moment> {
        let peak = Some(TimeRange { from_ms: 120, to_ms: 130 });
        parse(text, Times { span_ms: (0, 200), marks: &marks(), peak }, 100).ok()
    }

    fn at(point: Point) -> Option<Moment> {
        Some(Moment::At(PointInTime::At(point)))
    }

    #[test]
    fn a_mark_is_its_own_point_whatever_it_is_called() {
        assert_eq!(parsed("loaded"), at(Point::Mark(1)));
        assert_eq!((parsed("a..b"), parsed("x/y@z")), (at(Point::Mark(3)), at(Point::Mark(4))));
        assert_eq!(parsed("50%"), at(Point::Time(81)), "a controller's mark has a time only");
        assert_eq!(parsed("peak"), Some(Moment::At(PointInTime::Peak)));
        assert_eq!(parsed("mark:peak"), at(Point::Mark(2)));
        assert_eq!(parsed("mark:nothing"), None);
    }

    #[test]
    fn ranges_may_begin_and_end_with_marks() {
        let between = |from, to| Some(Moment::Between { from, to });
        assert_eq!(parsed("loaded..mark:peak"), between(Point::Mark(1), Point::Mark(2)));
        assert_eq!(parsed("loaded..a..b"), between(Point::Mark(1), Point::Mark(3)));
        assert_eq!(parsed("a..b..150"), between(Point::Mark(3), Point::Time(150)));
        assert_eq!(parsed("..loaded"), between(Point::Time(0), Point::Mark(1)));
        assert_eq!(parsed("loaded.."), between(Point::Mark(1), Point::Time(u64::MAX)));
        assert_eq!(parsed("a..b..loaded"), None, "it ends before it begins");
        let range = TimeRange { from_ms: 70, to_ms: 95 };
        assert_eq!(parsed("peak:loaded..a..b"), Some(Moment::At(PointInTime::Highest(range))));
    }

    #[test]
    fn ranges_may_begin_and_end_with_the_peak() {
        let between = |from, to| Some(Moment::Between { from: Point::Time(from), to: Point::Time(to) });
        assert_eq!(parsed("peak..end"), between(120, u64::MAX));
        assert_eq!(parsed("start..peak"), between(0, 130));
        assert_eq!(parsed("150..peak"), None, "it ends before it begins");
    }

    #[test]
    fn a_time_after_the_end_is_an_error_that_names_the_length() {
        let times = Times { span_ms: (0, 10_000), marks: &[], peak: None };
        for text in ["99s", "99000", "1s..99s", "peak:99s..", "10.1s"] {
            let error = parse(text, times, 100).unwrap_err().to_string();
            assert!(error.contains("0 ms to 10000 ms"), "{text}: {error}");
        }
        assert!(parse("10s", times, 100).is_ok() && parse("1s..10s", times, 100).is_ok());
    }

    #[test]
    fn a_time_selects_the_peak_of_its_step() {
        let range = TimeRange { from_ms: 100, to_ms: 200 };
        assert_eq!(parsed("150ms"), Some(Moment::At(PointInTime::Highest(range))));
        assert_eq!(parsed("75%"), parsed("150"));
    }
}
