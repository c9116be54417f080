//! The profile of a part of a recording, with a comment that names the part.

use heapwise_profile::Profile;
use heapwise_profile::recording::{Catalog, Damage, Moment, Recording, RecordingSource, Timeline};

use super::moment::{DEFAULT_STEP_MS, Part};
use super::open::Opened;

/// The profile of a part.
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
