//! Processes that were started under this one, whatever became of their parents, users and
//! namespaces: they carry its configuration of the probe in their environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use heapwise_format::paths::ProcessId;

use crate::process;
use crate::process::Status;

/// Running processes that were started under this one and carry its configuration of the probe, in
/// repeated scans.
#[derive(Debug, Clone)]
pub(crate) struct Carriers {
    key: String,
    /// Processes from before the program started that still run. They are not examined. A number is
    /// not used again before all others were.
    older: BTreeSet<u32>,
    /// Those found by earlier scans: some overwrite their environment later.
    known: BTreeSet<(u32, u64)>,
    /// Those in other pid namespaces, also when they have ended: by number in there and start time.
    elsewhere: BTreeMap<(u32, u64), u32>,
}

impl Carriers {
    /// Of a program that is about to be started.
    pub(crate) fn before_start() -> Self {
        Self {
            key: launcher_key(),
            older: process::list().into_iter().collect(),
            known: BTreeSet::new(),
            elsewhere: BTreeMap::new(),
        }
    }

    /// A process that a segment names by its number in its own pid namespace, as this process sees
    /// it.
    pub(crate) fn seen_from_here(&self, named: ProcessId) -> ProcessId {
        let pid = self.elsewhere.get(&(named.pid, named.starttime));
        ProcessId { pid: pid.copied().unwrap_or(named.pid), ..named }
    }

    pub(crate) fn list(&mut self) -> Vec<u32> {
        let (mut older, mut known) = (BTreeSet::new(), BTreeSet::new());
        for pid in process::list() {
            if self.older.contains(&pid) {
                older.insert(pid);
                continue;
            }
            let Some(start) = process::starttime(pid) else { continue };
            if self.known.contains(&(pid, start)) {
                known.insert((pid, start));
            // Again in every scan: the environment of a process is empty for a moment while it
            // calls `exec`.
            } else if carries(pid, &self.key) {
                known.insert((pid, start));
                let inner = Status::of(pid).map(|status| status.inner_pid).filter(|inner| *inner != pid);
                self.elsewhere.extend(inner.map(|inner| ((inner, start), pid)));
            }
        }
        (self.older, self.known) = (older, known);
        self.known.iter().map(|(pid, _)| *pid).collect()
    }
}

/// The pair of `HEAPWISE_CONF` that names this process as the launcher.
pub(crate) fn launcher_key() -> String {
    let own = std::process::id();
    format!("launcher:{own}-{}", process::starttime(own).unwrap_or(0))
}

/// Whether the environment of a process has this key of `HEAPWISE_CONF`.
pub(crate) fn carries(pid: u32, key: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let conf = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"HEAPWISE_CONF="));
    conf.is_some_and(|conf| conf.split(|byte| *byte == b',').any(|pair| pair == key.as_bytes()))
}
