//! The findings of a recording: reads the input of the analyses and runs them.

use heapwise_profile::recording::analysis::{Evidence, Finding, findings};
use heapwise_profile::recording::{Counts, Damage, PointInTime, Recording, Statistics, Tables, Timeline};

use super::moment::DEFAULT_STEP_MS;
use super::open::{Opened, RecordingFile};
use crate::failure::{Failure, Outcome};

/// Analyses a recording.
pub fn read(opened: &mut Opened) -> Outcome<Vec<Finding>> {
    let jobs = opened.jobs;
    let facts = opened
        .recording
        .read(|recording| Facts::read(recording, &opened.tables, jobs))
        .ok_or_else(|| Failure::file(&opened.path, "holds nothing that can be read"))?;
    opened.recording.set_progress(None);
    let peak = (&facts.peak, facts.peak_ms);
    let evidence = Evidence::new(&opened.tables, &facts.statistics, &facts.timeline, &facts.base, peak);
    Ok(findings(&evidence))
}

/// Input of the analyses.
struct Facts {
    statistics: Statistics,
    timeline: Timeline,
    base: Counts,
    peak: Counts,
    peak_ms: u64,
}

impl Facts {
    fn read(recording: &Recording<RecordingFile>, tables: &Tables, jobs: usize) -> Result<Self, Damage> {
        let (peak, peak_ms) = recording.counts_at(tables, PointInTime::Peak, jobs)?;
        Ok(Self {
            statistics: Statistics::read(recording, tables, jobs)?,
            timeline: Timeline::read(recording, DEFAULT_STEP_MS)?,
            base: recording.base(tables)?,
            peak,
            peak_ms,
        })
    }
}
