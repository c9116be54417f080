//! The findings of a recording: reads the input of the analyses and runs them.

use heapwise_profile::StackId;
use heapwise_profile::finding::{Finding, ResidentMemory};
use heapwise_profile::recording::analysis::{Evidence, findings};
use heapwise_profile::recording::{Counts, Damage, PointInTime, Recording, Statistics, Tables, Timeline};

use super::moment::DEFAULT_STEP_MS;
use super::open::{Opened, RecordingFile};
use crate::failure::Outcome;
use crate::file_error;

/// Analyses a recording. `stacks` has the stack of each node of its stack tree.
pub fn read(opened: &mut Opened, stacks: &[Option<StackId>]) -> Outcome<Vec<Finding>> {
    let jobs = opened.jobs;
    let facts = opened
        .recording
        .read(|recording| Facts::read(recording, &opened.tables, jobs))
        .ok_or_else(|| file_error!(&opened.path, "holds nothing that can be read"))?;
    opened.recording.set_progress(None);
    let peak = (&facts.peak, facts.peak_ms);
    let Facts { statistics, timeline, base, .. } = &facts;
    let evidence = Evidence::new(&opened.tables, statistics, timeline, base, peak, stacks);
    let mut found = findings(&evidence);
    let history = opened.recording.read(|recording| recording.ledger_history()).unwrap_or_default();
    found.extend(ResidentMemory::of_history(&history).iter().flat_map(ResidentMemory::findings));
    Ok(found)
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
