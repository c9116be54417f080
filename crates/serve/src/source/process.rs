//! A process that carries the probe, or the last state of one that has ended.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use heapwise_format::segment::{AllocatorKind, Control, Controller, Counter, Demand, IndexKind, Mode, State};
use heapwise_profile::finding::ResidentMemory;
use heapwise_profile::ledger::{Ledger, LedgerHistory};
use heapwise_profile::snapshot::Snapshot;
use heapwise_profile::{Began, Profile};
use serde_json::{Value, json};

use super::{ControlCommand, Facts, Kind, Source, Stretch};
use crate::error::{HttpError, Result};
use crate::live_history::LiveHistory;
use crate::profile_store::Stored;
use crate::profile_store::{Kept, ProfileStore};
use crate::statistics;
use crate::timeline::Timeline;
use heapwise_capture::allocator;
use heapwise_capture::control::{self, Change};
use heapwise_capture::lease;
use heapwise_capture::ledger;
use heapwise_capture::mark;
use heapwise_capture::segments::{SegmentEntry, SegmentFile};
use heapwise_capture::stopped;
use heapwise_capture::window::Window;

/// Name of the last state of an ended process among its stored profiles.
const LAST_STATE: &str = "last-state";

/// How long a process counts as running after a check: many requests would each read `/proc`
/// otherwise.
const SEEN_LASTS: Duration = Duration::from_millis(50);

/// Bytes of the largest profile that is kept.
const MOST_KEPT_BYTES: usize = 256 << 20;

/// A served process.
#[derive(Debug)]
pub(crate) struct ProcessSource {
    id: String,
    found: SegmentEntry,
    history: ProfileStore,
    pulse: Arc<LiveHistory>,
    /// When it was last seen running.
    seen_alive: Mutex<Option<Instant>>,
}

impl ProcessSource {
    /// The id of a process: unique even when the kernel uses a pid again.
    pub(crate) fn id_of(found: &SegmentEntry) -> String {
        format!("{}-{}", found.process.pid, found.process.starttime)
    }

    /// Serves a process whose profiles are kept under `root`.
    pub(crate) fn new(found: SegmentEntry, root: &Path, most: Kept, pulse: Arc<LiveHistory>) -> Self {
        let id = Self::id_of(&found);
        Self { history: ProfileStore::new(root, &id, most), id, found, pulse, seen_alive: Mutex::default() }
    }

    fn segment(&self) -> Result<SegmentFile> {
        Ok(self.found.open()?)
    }

    fn live_segment(&self) -> Result<SegmentFile> {
        if self.found.is_alive() {
            return self.segment();
        }
        Err(HttpError::bad("the process has ended; its last state is shown"))
    }
}

impl Source for ProcessSource {
    fn id(&self) -> &str {
        &self.id
    }

    fn facts(&self) -> Result<Facts> {
        let segment = self.segment()?;
        let snapshot = segment.snapshot()?;
        let program = String::from_utf8_lossy(snapshot.header.exe()).into_owned();
        let command: Vec<_> = snapshot
            .header
            .cmdline
            .split(|byte| *byte == 0)
            .filter(|argument| !argument.is_empty())
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect();
        // The control page, not the probe's state: a program that does not allocate applies it
        // later.
        let Demand { mode, sample_bytes: rate_bytes } = lease::demand(&snapshot);
        let is_alive = self.found.is_alive();
        Ok(Facts {
            kind: if is_alive { Kind::Live } else { Kind::Dead },
            // The name it was called by: one executable may have many names.
            title: last_part(command.first().unwrap_or(&program)),
            detail: command.join(" "),
            pid: Some(self.found.process.pid),
            mode: Some(mode.name()),
            rate_bytes: (mode == Mode::Sampled).then_some(rate_bytes),
            index: snapshot.index().map(IndexKind::name),
            live_bytes: Some(snapshot.live_bytes()),
            file_bytes: None,
            modified_unix_ms: None,
            allocated_bytes: snapshot.counter(Counter::AllocatedBytes),
            peak_bytes: snapshot.counter(Counter::PeakBytes),
            parent_pid: Some(snapshot.header.parent_pid).filter(|pid| *pid != 0),
            ended: (!is_alive).then(|| if snapshot.state() == State::Exited { "exited" } else { "killed" }),
            recording_since_unix_ms: recording_since_ms(&snapshot),
            started_unix_ms: Some(snapshot.header.start_realtime_ns / 1_000_000),
            has_timeline: true,
        })
    }

    fn is_live(&self) -> Result<bool> {
        let mut seen = self.seen_alive.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_none_or(|when| when.elapsed() > SEEN_LASTS) {
            *seen = self.found.is_alive().then(Instant::now);
        }
        Ok(seen.is_some())
    }

    fn stored(&self) -> Result<Vec<Stored>> {
        let mut all = self.history.list();
        if !self.found.is_alive() {
            let last = Stored { name: LAST_STATE.into(), time_unix_ms: None, bytes: 0, version: 0 };
            all.insert(0, last);
        }
        Ok(all)
    }

    fn load(&self, name: &str, _at: Option<&str>) -> Result<Profile> {
        if name == LAST_STATE {
            return self.current();
        }
        load_kept(&self.history, name)
    }

    fn current(&self) -> Result<Profile> {
        let now = self.found.at_present();
        Ok(heapwise_capture::target::of_process(&now)?)
    }

    fn record_for(&self, time: Duration, rate: Option<u64>) -> Result<Stretch> {
        /// Time between two heartbeats of the lease, which are written less often.
        const STEP: Duration = Duration::from_millis(100);
        let segment = self.live_segment()?;
        let sample_bytes =
            rate.map_or_else(|| Ok(control::current(&segment)?.sample_bytes), Ok::<u64, HttpError>)?;
        let demand = Demand { mode: Mode::Sampled, sample_bytes };
        let mut window = Window::start(&segment, Controller::Serve, demand)?;
        let before = segment.snapshot()?.profile();
        let started = Instant::now();
        while started.elapsed() < time && self.found.is_alive() {
            std::thread::sleep(STEP.min(time.saturating_sub(started.elapsed())));
            window.beat();
        }
        let stretch = Stretch { before, after: segment.snapshot()?.profile(), window: window.profile()? };
        if self.found.is_alive() {
            window.end()?;
        }
        Ok(stretch)
    }

    fn keep(&self, profile: &Profile) -> Result<Stored> {
        let bytes = crate::encode::heap_v2(profile, MOST_KEPT_BYTES)?;
        let program = last_part(profile.meta.args.first().unwrap_or(&profile.meta.program));
        let stored = self.history.store(SystemTime::now(), &program, &bytes);
        stored.map_err(|why| HttpError::failed(format!("the profile could not be stored: {why}")))
    }

    fn control(&self, command: &ControlCommand) -> Result<()> {
        let segment = self.live_segment()?;
        let change = match command {
            ControlCommand::Start => {
                let known = control::current(&segment)?;
                let mode = if known.sample_bytes <= 1 { Mode::Exact } else { Mode::Sampled };
                Change::new().mode(mode)
            }
            ControlCommand::Stop => {
                stopped::save(&segment)?;
                Change::new().mode(Mode::Off)
            }
            ControlCommand::Reset => {
                if let Some(other) = lease::of_others(&segment)?.first() {
                    let other = lease::describe(other);
                    return Err(HttpError::bad(format!("not reset: {other} relies on what is recorded")));
                }
                Change::new().reset()
            }
            ControlCommand::Rate(1) => Change::new().mode(Mode::Exact),
            ControlCommand::Rate(bytes) if *bytes <= Control::MAX_SAMPLE_BYTES => {
                Change::new().mode(Mode::Sampled).sample_bytes(*bytes)
            }
            ControlCommand::Rate(_) => return Err(HttpError::bad("a rate is at most 1 TiB")),
            ControlCommand::Mark(name) => {
                self.pulse.mark(&self.id, name);
                return Ok(mark::set(&segment, name)?);
            }
        };
        control::apply(&segment, &change)?;
        Ok(())
    }

    fn timeline(&self) -> Result<Timeline> {
        let stored: Vec<(String, u64)> = self
            .history
            .list()
            .into_iter()
            .filter_map(|stored| Some((stored.name, stored.time_unix_ms?)))
            .collect();
        Ok(self.pulse.timeline(&self.id, &stored))
    }

    fn ledger(&self) -> Result<Option<Ledger>> {
        let ledger = ledger::read(&self.found)?.map(|reading| reading.ledger);
        if let Some(ledger) = &ledger {
            self.pulse.ledger(&self.id, ledger);
        }
        Ok(ledger)
    }

    fn resident_memory(&self) -> Result<Option<ResidentMemory>> {
        match self.pulse.resident_memory(&self.id) {
            Some(memory) => Ok(Some(memory)),
            None => Ok(self.ledger()?.as_ref().map(ResidentMemory::of)),
        }
    }

    fn ledger_history(&self) -> Result<LedgerHistory> {
        Ok(self.pulse.ledger_history(&self.id))
    }

    fn allocator_text(&self, letters: &str) -> Result<Option<String>> {
        let segment = self.found.open()?;
        let is_jemalloc = segment.snapshot()?.header.allocator == AllocatorKind::Jemalloc;
        if !is_jemalloc || !self.is_live()? {
            return Ok(None);
        }
        let text = allocator::ask_text(&segment, letters)?;
        text.map(Some).ok_or_else(|| {
            HttpError::unavailable(
                "jemalloc's statistics come with the next allocation of the program: ask again",
            )
        })
    }

    fn statistics(&self) -> Result<Value> {
        Ok(json!({ "sections": statistics::sections(&self.found)? }))
    }
}

/// A profile from a history.
pub(super) fn load_kept(history: &ProfileStore, name: &str) -> Result<Profile> {
    let bytes = history
        .read(name)
        .map_err(|_| HttpError::missing(format!("no stored profile `{name}`; it may have been pruned")))?;
    heapwise_profile::read(&bytes).map_err(|why| HttpError::failed(format!("{name}: {why}")))
}

/// Wall-clock milliseconds when counting began.
fn recording_since_ms(snapshot: &Snapshot<'_, SegmentFile>) -> Option<u64> {
    let after_ns = match snapshot.began() {
        Began::Never => return None,
        Began::WithProgram => 0,
        Began::Late { after_ns } | Began::Reset { after_ns } => after_ns,
        _ => return None,
    };
    Some((snapshot.header.start_realtime_ns + after_ns) / 1_000_000)
}

fn last_part(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}
