//! The heap over time, in steps.

use heapwise_format::recording::{TIMELINE_ROW_MS, TimelineRow};

use super::{Damage, Recording, RecordingSource};

/// One step of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// Milliseconds at its start.
    pub start_ms: u64,
    /// Highest number of live bytes within it.
    pub max_live_bytes: u64,
    /// Live bytes at its end.
    pub live_bytes: u64,
    /// Live blocks at its end.
    pub live_blocks: u64,
    /// Blocks allocated within it.
    pub allocs: u64,
    /// Bytes allocated within it.
    pub alloc_bytes: u64,
    /// Blocks freed within it.
    pub frees: u64,
    /// Resident bytes of the process as sampled last.
    pub rss_bytes: u64,
}

/// The heap from the first to the last event, without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// Length of a step.
    pub step_ms: u64,
    /// The steps, one after another.
    pub steps: Vec<Step>,
}

/// Most steps a timeline may have; a longer recording gets longer steps.
const MOST_STEPS: u64 = 1 << 20;

impl Timeline {
    /// The step that `asked_ms` rounds to: steps are made of the rows of a recording.
    #[must_use]
    pub fn step_ms(asked_ms: u64) -> u64 {
        let whole = asked_ms.max(TIMELINE_ROW_MS).checked_next_multiple_of(TIMELINE_ROW_MS);
        whole.unwrap_or(u64::MAX - u64::MAX % TIMELINE_ROW_MS)
    }

    /// Reads the timeline of a recording in steps of `step_ms`, rounded up to whole rows.
    ///
    /// # Errors
    /// At the first damaged frame.
    pub fn read<S: RecordingSource>(recording: &Recording<S>, step_ms: u64) -> Result<Self, Damage> {
        Ok(Self::from_rows(&recording.timeline_rows()?, step_ms))
    }

    pub(super) fn from_rows(rows: &[TimelineRow], step_ms: u64) -> Self {
        let span = rows.last().map_or(0, |row| row.start_ms);
        let step_ms = Self::step_ms(step_ms.max(span / MOST_STEPS));
        let mut steps: Vec<Step> = Vec::new();
        for row in rows {
            let start_ms = row.start_ms - row.start_ms % step_ms;
            let first = rows.first().map_or(0, |first| first.start_ms - first.start_ms % step_ms);
            while steps.last().is_none_or(|last| last.start_ms < start_ms) {
                steps.push(following(steps.last(), first, step_ms));
            }
            if let Some(step) = steps.last_mut() {
                add(step, row);
            }
        }
        Self { step_ms, steps }
    }

    /// The step with the most live bytes.
    #[must_use]
    pub fn peak(&self) -> Option<&Step> {
        self.steps.iter().rev().max_by_key(|step| step.max_live_bytes)
    }
}

/// The step after `last` before anything happens in it.
fn following(last: Option<&Step>, first_ms: u64, step_ms: u64) -> Step {
    let Some(last) = last else { return Step { start_ms: first_ms, ..Step::default() } };
    Step {
        start_ms: last.start_ms + step_ms,
        max_live_bytes: last.live_bytes,
        live_bytes: last.live_bytes,
        live_blocks: last.live_blocks,
        rss_bytes: last.rss_bytes,
        ..Step::default()
    }
}

fn add(step: &mut Step, row: &TimelineRow) {
    step.max_live_bytes = step.max_live_bytes.max(row.max_live_bytes);
    step.live_bytes = row.live_bytes;
    step.live_blocks = row.live_blocks;
    step.allocs += row.allocs;
    step.alloc_bytes += row.alloc_bytes;
    step.frees += row.frees;
    if row.rss_bytes != 0 {
        step.rss_bytes = row.rss_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_steps_carry_on_and_maxima_are_kept() {
        let row = |start_ms, max, live| TimelineRow {
            start_ms,
            max_live_bytes: max,
            live_bytes: live,
            allocs: 1,
            ..TimelineRow::default()
        };
        let timeline = Timeline::from_rows(&[row(100, 50, 20), row(110, 30, 10), row(420, 15, 5)], 100);
        let shown: Vec<_> =
            timeline.steps.iter().map(|s| (s.start_ms, s.max_live_bytes, s.live_bytes, s.allocs)).collect();
        assert_eq!(shown, [(100, 50, 10, 2), (200, 10, 10, 0), (300, 10, 10, 0), (400, 15, 5, 1)]);
        assert_eq!(timeline.peak().map(|step| step.start_ms), Some(100));
    }
}
