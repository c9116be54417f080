//! Moments of a recording as people type them: `305ms`, `peak`, `end`, `50%`, `A..B`, `peak:A..B`, a mark's name.

use heapwise_profile::Profile;
use heapwise_profile::recording::{Catalog, Damage, Moment, Recording, RecordingSource, Timeline, Window};

use super::open::Opened;
use crate::failure::Outcome;
use crate::input_error;
use crate::quantity::parse_duration;

/// Unless told otherwise, a time means the highest moment of the step of this length it lies in.
pub const DEFAULT_STEP_MS: u64 = 100;

/// Before a range: its highest moment, and not what it left behind.
const PEAK_OF: &str = "peak:";

/// What of a recording is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The heap at a moment.
    At(Moment),
    /// What was allocated within a window and not freed within it.
    Within(Window),
}

/// Understands `text`; a single time stands for the highest moment of its step.
pub fn parse(text: &str, opened: &Opened, step_ms: u64) -> Outcome<Part> {
    if let Some(range) = text.strip_prefix(PEAK_OF)
        && let Some(window) = window(range, opened)?
    {
        return Ok(Part::At(Moment::Highest(window)));
    }
    if let Some(window) = window(text, opened)? {
        return Ok(Part::Within(window));
    }
    Ok(Part::At(match text {
        "peak" => Moment::Peak,
        "end" => Moment::End,
        _ => {
            let ms = time(text, opened)?;
            let step_ms = Timeline::step_ms(step_ms);
            let from_ms = ms - ms % step_ms;
            Moment::Highest(Window { from_ms, to_ms: from_ms + step_ms })
        }
    }))
}

/// `A..B`, either end of which may be left out; none when it is something else.
fn window(text: &str, opened: &Opened) -> Outcome<Option<Window>> {
    let Some((from, to)) = text.split_once("..") else { return Ok(None) };
    let bound = |text: &str, open: u64| if text.is_empty() { Ok(open) } else { time(text, opened) };
    let (from_ms, to_ms) = (bound(from, 0)?, bound(to, u64::MAX)?);
    if from_ms > to_ms {
        return Err(input_error!("`{text}` ends before it begins"));
    }
    Ok(Some(Window { from_ms, to_ms }))
}

/// A time in milliseconds since the start of the recording.
fn time(text: &str, opened: &Opened) -> Outcome<u64> {
    let (first, end) = opened.recording.span_ms();
    match text {
        "start" => return Ok(first),
        "end" => return Ok(end),
        _ => {}
    }
    if let Some(percent) = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok()) {
        return Ok(first + ((end - first) as f64 * percent.clamp(0.0, 100.0) / 100.0) as u64);
    }
    if let Some(mark) = opened.catalog.marks.iter().find(|mark| mark.name == text) {
        return Ok(mark.ms);
    }
    // A bare number is milliseconds, as the gs driver has it.
    if let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    parse_duration(text).map(|time| time.as_millis() as u64).map_err(|_| {
        let marks: Vec<&str> = opened.catalog.marks.iter().map(|mark| &*mark.name).collect();
        let known =
            if marks.is_empty() { String::new() } else { format!(", marks are {}", marks.join(", ")) };
        input_error!("`{text}` is no moment; try 305ms, peak, end, 50%, 1s..2s, peak:1s..2s{known}")
    })
}

/// The profile of a part, and what is to be said about it.
pub fn profile(opened: &mut Opened, part: Part) -> Profile {
    let (catalog, jobs) = (&opened.catalog, opened.jobs);
    let read = opened.recording.read(|recording| read(recording, catalog, part, jobs));
    let mut profile = read.unwrap_or_default();
    if let Some(damage) = opened.recording.damage() {
        profile.meta.comments.push(damage.to_string());
    }
    profile
}

fn read<S: RecordingSource + Sync>(
    recording: &Recording<S>,
    catalog: &Catalog,
    part: Part,
    jobs: usize,
) -> Result<Profile, Damage> {
    let (counts, from_ms, to_ms, comment) = match part {
        Part::At(moment) => {
            let (counts, ms) = recording.counts_at(catalog, moment, jobs)?;
            let end_ms = recording.span_ms().1;
            let ms = if moment == Moment::End { end_ms } else { ms };
            let what = match moment {
                Moment::Peak => ", the highest moment",
                Moment::End => ", the end",
                Moment::Highest(_) => ", the highest moment of that time",
                Moment::Before(_) => "",
            };
            (counts, 0, ms, format!("the heap {ms} ms after the start of the recording{what}"))
        }
        Part::Within(window) => {
            let to_ms = window.to_ms.min(recording.span_ms().1);
            let counts = recording.counts_between(catalog, window, jobs)?;
            let comment = format!(
                "allocated from {} ms to {to_ms} ms after the start of the recording and live at the end of that",
                window.slice_ms()
            );
            (counts, window.slice_ms(), to_ms, comment)
        }
    };
    let mut profile = catalog.profile(&counts);
    profile.meta.comments.push(comment);
    profile.meta.duration_ns = Some(to_ms.saturating_sub(from_ms).saturating_mul(1_000_000));
    profile.meta.time_unix_ns = Some(catalog.start_unix_ns.saturating_add(to_ms.saturating_mul(1_000_000)));
    profile.meta.peak_bytes =
        Timeline::read(recording, DEFAULT_STEP_MS)?.peak().map(|step| step.max_live_bytes);
    Ok(profile)
}
