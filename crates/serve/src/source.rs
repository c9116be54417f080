//! Sources: a live process, a dead one, a file, a directory of dumps, a recording.

mod directory;
mod file;
mod past;
mod process;
mod recorded;

pub(crate) use directory::DirectorySource;
pub(crate) use file::FileSource;
pub(crate) use past::PastSource;
pub(crate) use process::ProcessSource;
pub(crate) use recorded::RecordedSource;

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use heapwise_profile::Profile;
use heapwise_profile::finding::ResidentMemory;
use heapwise_profile::ledger::{Ledger, LedgerHistory};
use heapwise_render::Language;
use serde_json::{Value, json};

use super::error::{HttpError, Result};
use super::profile_store::Stored;
use super::timeline::Timeline;

/// Kinds of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Live,
    Dead,
    File,
    Directory,
    Recording,
}

impl Kind {
    /// As the API names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Live => "live",
            Kind::Dead => "dead",
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Recording => "recording",
        }
    }
}

/// Facts about a source that need no profile.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub kind: Kind,
    pub title: String,
    /// Command line or path.
    pub detail: String,
    pub pid: Option<u32>,
    pub mode: Option<&'static str>,
    pub rate_bytes: Option<u64>,
    /// The live-block index in force.
    pub index: Option<&'static str>,
    pub live_bytes: Option<u64>,
    /// Size of a file or recording.
    pub file_bytes: Option<u64>,
    /// When a file or recording was written.
    pub modified_unix_ms: Option<u64>,
    /// Allocated since counting began.
    pub allocated_bytes: u64,
    /// Highest number of live bytes since counting began.
    pub peak_bytes: u64,
    pub parent_pid: Option<u32>,
    /// How an ended process ended: `exited`, `killed`, `replaced` by another program.
    pub ended: Option<&'static str>,
    /// When counting began; `None` before it did.
    pub recording_since_unix_ms: Option<u64>,
    pub started_unix_ms: Option<u64>,
    pub has_timeline: bool,
}

impl Facts {
    /// Facts about something that is not a process.
    pub(crate) fn new(kind: Kind, title: String, detail: String, has_timeline: bool) -> Self {
        Self {
            kind,
            title,
            detail,
            pid: None,
            mode: None,
            rate_bytes: None,
            index: None,
            live_bytes: None,
            file_bytes: None,
            modified_unix_ms: None,
            allocated_bytes: 0,
            peak_bytes: 0,
            parent_pid: None,
            ended: None,
            recording_since_unix_ms: None,
            started_unix_ms: None,
            has_timeline,
        }
    }

    /// Facts about a file at `path`; numbered files have no size under the name of all.
    fn of_file(kind: Kind, path: &Path, has_timeline: bool) -> Self {
        let title = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let facts = Self::new(kind, title, path.display().to_string(), has_timeline);
        let Ok(data) = fs::metadata(path) else { return facts };
        let modified = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            file_bytes: Some(data.len()),
            modified_unix_ms: modified.map(|time| time.as_millis() as u64),
            ..facts
        }
    }

    /// Whether it is a running process, which can be controlled and profiled.
    pub(crate) fn is_live(&self) -> bool {
        self.kind == Kind::Live
    }

    /// As the API shows it.
    pub(crate) fn json(&self, id: &str) -> Value {
        json!({
            "id": id, "kind": self.kind.name(), "title": self.title, "detail": self.detail, "pid": self.pid,
            "mode": self.mode, "rate_bytes": self.rate_bytes, "index": self.index, "live_bytes": self.live_bytes,
            "file_bytes": self.file_bytes, "modified_unix_ms": self.modified_unix_ms,
            "parent_pid": self.parent_pid, "ended": self.ended,
            "recording_since_unix_ms": self.recording_since_unix_ms,
            "started_unix_ms": self.started_unix_ms, "has_timeline": self.has_timeline,
            "can_control": self.is_live(), "can_snapshot": self.is_live(),
        })
    }
}

/// Commands to a live process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ControlCommand {
    Start,
    Stop,
    Reset,
    /// Mean bytes between samples; 1 records every block.
    Rate(u64),
    Mark(String),
}

/// A stretch of time of a process.
#[derive(Debug)]
pub(crate) struct Stretch {
    /// Everything counted before it.
    pub before: Profile,
    /// Everything counted at its end.
    pub after: Profile,
    /// What was allocated in it, and what was live at its end.
    pub window: Profile,
}

/// Something served. Profiles come without symbols; the profile cache adds them once.
pub(crate) trait Source: Send + Sync {
    /// Stable for as long as the thing exists, safe in a URL.
    fn id(&self) -> &str;

    /// Its facts now.
    fn facts(&self) -> Result<Facts>;

    /// Whether it is a running process; cheaper than all facts.
    fn is_live(&self) -> Result<bool> {
        Ok(self.facts()?.is_live())
    }

    /// Whether it can be looked at as it was at a moment (`at=`).
    fn has_moments(&self) -> bool {
        false
    }

    /// Its stored profiles, newest first.
    fn stored(&self) -> Result<Vec<Stored>>;

    /// One of the stored profiles; `at` is a moment or range of a recording.
    fn load(&self, name: &str, at: Option<&str>) -> Result<Profile>;

    /// As `load`, with blocks of different sizes counted separately where that needs more reading.
    fn load_by_size(&self, name: &str, at: Option<&str>) -> Result<Profile> {
        self.load(name, at)
    }

    /// The state now: of a live process at this moment, of anything else the last one known.
    fn current(&self) -> Result<Profile>;

    /// Records for a time, sampled at `rate` or at the process's own; a process that records anyhow
    /// goes on as before.
    fn record_for(&self, _time: Duration, _rate: Option<u64>) -> Result<Stretch> {
        Err(HttpError::bad("seconds: only a live process changes; ask without it for the last state"))
    }

    /// Stores a profile just taken.
    fn keep(&self, _profile: &Profile) -> Result<Stored> {
        Err(HttpError::bad("this source is not a running process"))
    }

    /// Controls the process.
    fn control(&self, _command: &ControlCommand) -> Result<()> {
        Err(HttpError::bad("this source is not a running process"))
    }

    /// Live bytes over time.
    fn timeline(&self) -> Result<Timeline> {
        Ok(Timeline::default())
    }

    /// Findings over its whole time, as JSON; `None` without a time dimension.
    fn findings(&self, _language: Language) -> Result<Option<Vec<Value>>> {
        Ok(None)
    }

    /// Where the resident memory of a running process is.
    fn ledger(&self) -> Result<Option<Ledger>> {
        Ok(None)
    }

    /// Resident memory of a running process, for findings: a recent reading, or a new one.
    fn resident_memory(&self) -> Result<Option<ResidentMemory>> {
        Ok(None)
    }

    /// Where the resident memory was over time: since the first reading, or in a recording.
    fn ledger_history(&self) -> Result<LedgerHistory> {
        Ok(LedgerHistory::default())
    }

    /// What jemalloc prints about itself with these letters of `malloc_stats_print`; `None` without
    /// jemalloc.
    fn allocator_text(&self, _letters: &str) -> Result<Option<String>> {
        Ok(None)
    }

    /// Statistics of allocator, kernel and probe, as sections of rows.
    fn statistics(&self) -> Result<Value> {
        Ok(json!({ "sections": [] }))
    }
}

/// The stored profile of a name.
pub(crate) fn find_stored(source: &dyn Source, name: &str) -> Result<Stored> {
    source
        .stored()?
        .into_iter()
        .find(|stored| stored.name == name)
        .ok_or_else(|| HttpError::missing(format!("no stored profile `{name}`; it may have been pruned")))
}
