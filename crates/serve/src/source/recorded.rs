//! A recording: any moment and any range of it can be looked at.

use std::path::PathBuf;

use heapwise_profile::Profile;
use heapwise_profile::finding::most_important;
use heapwise_profile::ledger::LedgerHistory;
use heapwise_profile::own_code::OwnRule;
use heapwise_profile::recording::Timeline as Steps;
use serde_json::Value;

use super::file::stored;
use super::{Facts, Kind, Source};
use crate::error::{HttpError, Result};
use crate::finding;
use crate::profile_store::Stored;
use crate::timeline::{Mark, Timeline};
use heapwise_capture::recording::moment::DEFAULT_STEP_MS;
use heapwise_capture::recording::open::{self, Opened};
use heapwise_capture::recording::read_options::ReadOptions;
use heapwise_capture::recording::{findings, moment_profile};
use heapwise_render::Language;
use heapwise_render::findings::Names;
use heapwise_symbolize::Options as SymbolOptions;

/// Points of a curve: more than a screen has columns.
const MOST_POINTS: u64 = 2000;

/// A served recording, one file or the numbered files of a rotated one.
#[derive(Debug)]
pub(crate) struct RecordedSource {
    id: String,
    path: PathBuf,
    symbols: SymbolOptions,
    own: OwnRule,
}

impl RecordedSource {
    /// Serves the recording at `path` under `id`.
    pub(crate) fn new(id: String, path: PathBuf, symbols: SymbolOptions, own: OwnRule) -> Self {
        Self { id, path, symbols, own }
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn open(&self) -> Result<Opened> {
        Ok(open::open(&self.path, &ReadOptions::default())?)
    }
}

/// Resident bytes of each step; empty when the recorder read none.
fn rss(steps: &Steps) -> Vec<u64> {
    let all: Vec<u64> = steps.steps.iter().map(|step| step.rss_bytes).collect();
    if all.iter().all(|bytes| *bytes == 0) { Vec::new() } else { all }
}

/// The profile at a point in time or of a range; at the end when none is given.
fn profile(mut opened: Opened, at: Option<&str>) -> Result<Profile> {
    let moment = opened.moment(at.unwrap_or("end"), DEFAULT_STEP_MS);
    let moment = moment.map_err(|why| HttpError::bad(why.to_string()))?;
    Ok(moment_profile::profile(&mut opened, moment))
}

impl Source for RecordedSource {
    fn id(&self) -> &str {
        &self.id
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::of_file(Kind::Recording, &self.path, true))
    }

    fn has_moments(&self) -> bool {
        true
    }

    fn stored(&self) -> Result<Vec<Stored>> {
        let whole = match std::fs::metadata(&self.path) {
            Ok(data) => stored(self.name(), &data),
            // Numbered files: none has the name itself.
            Err(_) => Stored { name: self.name(), time_unix_ms: None, bytes: 0, version: 0 },
        };
        Ok(vec![whole])
    }

    fn load(&self, _name: &str, at: Option<&str>) -> Result<Profile> {
        profile(self.open()?, at)
    }

    fn load_by_size(&self, _name: &str, at: Option<&str>) -> Result<Profile> {
        profile(Opened { by_size: true, ..self.open()? }, at)
    }

    fn current(&self) -> Result<Profile> {
        self.load("", None)
    }

    fn timeline(&self) -> Result<Timeline> {
        let mut opened = self.open()?;
        let (first, end) = opened.recording.span_ms();
        let step_ms = (end - first) / MOST_POINTS;
        let steps = opened.recording.read(|recording| Steps::read(recording, step_ms));
        let steps = steps.ok_or_else(|| HttpError::missing("the recording has no timeline"))?;
        let marks = opened.tables.marks.iter();
        Ok(Timeline {
            start_unix_ms: Some(opened.tables.start_unix_ns / 1_000_000),
            step_ms: steps.step_ms,
            points: steps.steps.iter().map(|step| (step.start_ms, step.max_live_bytes)).collect(),
            allocated: steps.steps.iter().map(|step| step.alloc_bytes).collect(),
            rss: rss(&steps),
            peak: steps.peak().map(|step| (Some(step.start_ms), step.max_live_bytes)),
            marks: marks.map(|mark| Mark { ms: mark.ms, name: mark.name.clone(), profile: None }).collect(),
            any_range: true,
        })
    }

    fn ledger_history(&self) -> Result<LedgerHistory> {
        let history = self.open()?.recording.read(|recording| recording.ledger_history());
        Ok(history.unwrap_or_default())
    }

    fn findings(&self, language: Language) -> Result<Option<Vec<Value>>> {
        let mut opened = self.open()?;
        let (mut profile, stacks) = opened.tables.stacks();
        let found = most_important(findings::read(&mut opened, &stacks)?);
        heapwise_symbolize::symbolize(&mut profile, &self.symbols);
        Ok(Some(finding::with_links(&Names::of_recording(&profile, &found, &self.own), &found, language)))
    }
}
