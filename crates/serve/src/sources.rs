//! Everything served, by id: the targets of the command line, or every process with the probe.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::{HttpError, Result};
use super::live_history::{LiveHistory, Reading};
use super::profile_store::{self, Kept, ProfileStore};
use super::source::{DirectorySource, FileSource, PastSource, ProcessSource, RecordedSource, Source};
use heapwise_capture::failure::Outcome;
use heapwise_capture::process;
use heapwise_capture::recording::open;
use heapwise_capture::segments::{self, SegmentEntry};
use heapwise_profile::own_code::OwnRule;
use heapwise_symbolize::Options as SymbolOptions;

/// Process sources kept; processes come and go for as long as the server runs.
const MOST_PROCESSES: usize = 1024;

/// How long a listing of processes is valid. A process that is not in it is searched for at once.
const LISTING_LASTS: Duration = Duration::from_millis(500);

/// The sources of a server.
pub(crate) struct Sources {
    /// Files and directories, in the order they were named.
    fixed: Vec<Arc<dyn Source>>,
    /// Processes named; `None` serves every process of this user that carries the probe.
    named: Option<Vec<SegmentEntry>>,
    /// The last listing of processes, and when.
    listed: Mutex<Option<(Instant, Vec<SegmentEntry>)>>,
    /// Process sources so far; a cache.
    processes: Mutex<HashMap<String, Arc<dyn Source>>>,
    root: PathBuf,
    most: Kept,
    pulse: Arc<LiveHistory>,
}

impl Sources {
    /// How many profiles of each process are kept.
    pub(crate) fn kept(&self) -> &Kept {
        &self.most
    }

    /// A sources of `targets`: files, directories, pids and program names; all processes when there
    /// are none. Profiles taken are kept under `root`, `most` a process.
    pub(crate) fn new(
        targets: &[String],
        root: PathBuf,
        most: usize,
        symbols: &SymbolOptions,
        own: &OwnRule,
    ) -> Outcome<Self> {
        let mut sources = Self {
            fixed: Vec::new(),
            named: (!targets.is_empty()).then(Vec::new),
            listed: Mutex::default(),
            processes: Mutex::default(),
            root,
            most: Kept::new(most),
            pulse: Arc::default(),
        };
        for target in targets {
            let path = Path::new(target);
            if open::is_recording(path) {
                let id = sources.free_id(path);
                sources.fixed.push(Arc::new(RecordedSource::new(
                    id,
                    path.to_owned(),
                    symbols.clone(),
                    own.clone(),
                )));
            } else if path.is_dir() {
                let id = sources.free_id(path);
                sources.fixed.push(Arc::new(DirectorySource::new(id, path.to_owned())));
            } else if path.exists() {
                let id = sources.free_id(path);
                sources.fixed.push(Arc::new(FileSource::new(id, path.to_owned())));
            } else {
                let found = heapwise_capture::target::processes(std::slice::from_ref(target))?;
                sources.named.get_or_insert_default().extend(found);
            }
        }
        Ok(sources)
    }

    /// All sources now.
    pub(crate) fn list(&self) -> Vec<Arc<dyn Source>> {
        let processes = self.found().into_iter().map(|found| self.process(found));
        processes.chain(self.past()).chain(self.fixed.iter().cloned()).collect()
    }

    /// The source of an id; a bare pid finds the newest process that has or had it.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<dyn Source>> {
        if let Some(fixed) = self.fixed.iter().find(|source| source.id() == id) {
            return Ok(Arc::clone(fixed));
        }
        if let Some(process) = self.known(id) {
            return Ok(process);
        }
        self.look_again();
        self.known(id).ok_or_else(|| {
            HttpError::missing(format!("nothing called `{id}` is served here; / lists what is"))
        })
    }

    /// The process of an id, running or ended.
    fn known(&self, id: &str) -> Option<Arc<dyn Source>> {
        let mut matching: Vec<SegmentEntry> = self
            .found()
            .into_iter()
            .filter(|found| ProcessSource::id_of(found) == id || found.process.pid.to_string() == id)
            .collect();
        matching.sort_by_key(|found| (found.alive, found.process.starttime));
        match matching.pop() {
            Some(found) => Some(self.process(found)),
            None => self.past().find(|source| source.id() == id),
        }
    }

    /// The source of addresses without an id.
    pub(crate) fn only(&self) -> Result<Arc<dyn Source>> {
        let mut all = self.list();
        if all.len() > 1 {
            // The only live process is meant, among files and dead ones.
            let live = |source: &Arc<dyn Source>| source.is_live().unwrap_or(false);
            let alive: Vec<_> = all.iter().filter(|source| live(source)).cloned().collect();
            if alive.len() == 1 {
                return Ok(Arc::clone(&alive[0]));
            }
        }
        match all.len() {
            1 => Ok(all.remove(0)),
            0 => Err(HttpError::missing(
                "nothing is served yet; start a program with `heapwise run -- PROGRAM`",
            )),
            many => Err(HttpError::missing(format!(
                "{many} are served; put /p/<pid> before the path, / lists them"
            ))),
        }
    }

    /// Adds a point to the curve of every live process.
    pub(crate) fn beat(&self) {
        for source in self.list() {
            if let Ok(facts) = source.facts()
                && facts.is_live()
            {
                let reading = Reading {
                    live: facts.live_bytes.unwrap_or(0),
                    allocated: facts.allocated_bytes,
                    peak: facts.peak_bytes,
                    rss: facts.pid.and_then(process::resident_bytes).unwrap_or(0),
                };
                self.pulse.beat(source.id(), reading);
            }
        }
    }

    /// Ended processes with stored profiles; left out when the command line names targets.
    fn past(&self) -> impl Iterator<Item = Arc<dyn Source>> {
        let known: Vec<String> = self.found().iter().map(ProcessSource::id_of).collect();
        let all = if self.named.is_none() { profile_store::processes(&self.root) } else { Vec::new() };
        all.into_iter().filter(move |id| !known.contains(id)).map(|id| -> Arc<dyn Source> {
            let history = ProfileStore::new(&self.root, &id, self.most.clone());
            Arc::new(PastSource::new(id, history))
        })
    }

    /// The processes served, from a recent listing: listing them reads the maps of each.
    fn found(&self) -> Vec<SegmentEntry> {
        if let Some(named) = &self.named {
            return named.clone();
        }
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*listed {
            Some((when, found)) if when.elapsed() < LISTING_LASTS => found.clone(),
            _ => listed.insert((Instant::now(), segments::list())).1.clone(),
        }
    }

    /// Drops the listing.
    fn look_again(&self) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn process(&self, found: SegmentEntry) -> Arc<dyn Source> {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        if processes.len() >= MOST_PROCESSES {
            processes.clear();
        }
        let id = ProcessSource::id_of(&found);
        let make = || -> Arc<dyn Source> {
            Arc::new(ProcessSource::new(found, &self.root, self.most.clone(), Arc::clone(&self.pulse)))
        };
        Arc::clone(processes.entry(id).or_insert_with(make))
    }

    /// The file name, made safe for URLs and unique.
    fn free_id(&self, path: &Path) -> String {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = path.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
        let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let name: String = name.chars().map(safe).collect();
        let taken = |id: &str| self.fixed.iter().any(|source| source.id() == id);
        (1..)
            .map(|number| if number == 1 { name.clone() } else { format!("{name}-{number}") })
            .find(|id| !taken(id))
            .unwrap_or(name)
    }
}
