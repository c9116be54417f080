//! The profile of a moment or window of a recording, with a comment that names it.

use heapwise_profile::coverage::Coverage;
use heapwise_profile::recording::{Damage, Point, PointInTime, Recording, RecordingSource, Tables, Timeline};
use heapwise_profile::{Profile, ProgramEnd};

use super::moment::{DEFAULT_STEP_MS, Moment};
use super::open::Opened;

/// The profile of a moment.
pub fn profile(opened: &mut Opened, moment: Moment) -> Profile {
    let (tables, by_size, jobs) = (&opened.tables, opened.by_size, opened.jobs);
    let read = opened.recording.read(|recording| read(recording, tables, moment, (by_size, jobs)));
    let mut profile = read.unwrap_or_default();
    if let Some(damage) = opened.recording.damage() {
        profile.meta.cut = Some(damage.cut());
    }
    profile
}

/// What the recording covers.
pub fn coverage(opened: &mut Opened) -> Coverage {
    Coverage::of(&profile(opened, Moment::At(PointInTime::End)))
}

fn read<S: RecordingSource + Sync>(
    recording: &Recording<S>,
    tables: &Tables,
    moment: Moment,
    (by_size, jobs): (bool, usize),
) -> Result<Profile, Damage> {
    let end_ms = recording.span_ms().1;
    let (mut profile, from_ms, to_ms, comment) = match moment {
        Moment::At(point) => {
            let (profile, ms) = if by_size {
                let (counts, ms) = recording.sizes_at(tables, point, jobs)?;
                (tables.profile_by_size(&counts), ms)
            } else {
                let (counts, ms) = recording.counts_at(tables, point, jobs)?;
                (tables.profile(&counts), ms)
            };
            let (ms, what) = match point {
                PointInTime::Peak => (ms, ", its peak"),
                PointInTime::End => (end_ms, ", the end"),
                PointInTime::Highest(_) => (ms, ", the peak within that time"),
                PointInTime::At(at @ Point::Mark(_)) => (ms_of(at, tables), ", at a mark"),
                PointInTime::At(Point::Time(_)) => (ms, ""),
            };
            (profile, 0, ms, format!("the heap {ms} ms after the start of the recording{what}"))
        }
        Moment::Between { from, to } => {
            let (from_ms, to_ms) = (ms_of(from.to_row(), tables), ms_of(to, tables).min(end_ms));
            let profile = if by_size {
                tables.profile_by_size(&recording.sizes_between(tables, from, to, jobs)?)
            } else {
                tables.profile(&recording.counts_between(tables, from, to, jobs)?)
            };
            let comment = format!(
                "allocated from {from_ms} ms to {to_ms} ms after the start of the recording and live at the end \
                 of that"
            );
            (profile, from_ms, to_ms, comment)
        }
    };
    if to_ms < end_ms {
        // The program went on.
        profile.meta.end = ProgramEnd::Unknown;
    }
    profile.meta.comments.push(comment);
    profile.meta.duration_ns = Some(to_ms.saturating_sub(from_ms).saturating_mul(1_000_000));
    profile.meta.time_unix_ns = Some(tables.start_unix_ns.saturating_add(to_ms.saturating_mul(1_000_000)));
    profile.meta.peak_bytes =
        Timeline::read(recording, DEFAULT_STEP_MS)?.peak().map(|step| step.max_live_bytes);
    Ok(profile)
}

fn ms_of(point: Point, tables: &Tables) -> u64 {
    match point {
        Point::Time(ms) => ms,
        Point::Mark(number) => {
            tables.marks.iter().find(|mark| mark.number == number).map_or(0, |mark| mark.ms)
        }
    }
}
