//! A process that heapwise started and its descendants: their segments, and when to remove them.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use heapwise_format::segment::Mode;

use super::control;
use super::lease::{self, Held};
use super::process;
use super::segments::{self, SegmentEntry, SegmentFile};

/// All known descendants of one process.
#[derive(Debug)]
pub struct ProcessTree {
    root: u32,
    members: BTreeSet<u32>,
}

impl ProcessTree {
    /// The tree of `root`, which is running or has just ended.
    pub fn of(root: u32) -> Self {
        Self { root, members: BTreeSet::from([root]) }
    }

    /// Segments of the root and of ended descendants.
    pub fn segments(&mut self) -> Vec<SegmentEntry> {
        let mut all = self.all();
        all.retain(|found| found.process.pid == self.root || !found.is_alive());
        all
    }

    /// Segments of descendants, running and ended.
    pub fn descendants(&mut self) -> Vec<SegmentEntry> {
        let mut all = self.all();
        all.retain(|found| found.process.pid != self.root);
        all
    }

    fn all(&mut self) -> Vec<SegmentEntry> {
        let mut family = Vec::new();
        // Oldest first, so a parent comes before its children.
        for found in segments::list_of_children() {
            let is_member = found.process.pid == self.root
                || SegmentFile::open(&found.path).is_ok_and(|segment| self.is_descendant(&segment));
            if is_member {
                self.members.insert(found.process.pid);
                family.push(found);
            }
        }
        family
    }

    /// Whether the process of a segment descends from the root. The parent of a daemon may have
    /// ended before the daemon made its segment; then it has the lease of this launcher.
    fn is_descendant(&self, segment: &SegmentFile) -> bool {
        segment.snapshot().is_ok_and(|snapshot| {
            self.members.contains(&snapshot.header.parent_pid) || lease::is_of_this_launcher(&snapshot)
        })
    }

    fn remove_ended_children(&mut self) {
        for found in self.descendants().iter().filter(|found| !found.is_alive()) {
            let _ = fs::remove_file(&found.path);
        }
    }

    /// Running descendants whose log is not drained.
    fn unread_logs(&mut self) -> Vec<SegmentEntry> {
        let mut unread = self.descendants();
        unread.retain(|found| {
            let is_unread = |segment: SegmentFile| {
                Ok(segment.snapshot()?.mode() == Mode::Log && !control::is_drained(&segment))
            };
            found.is_alive() && SegmentFile::open(&found.path).and_then(is_unread).unwrap_or(false)
        });
        unread
    }
}

/// Turns off logs that no recorder drains: each would fill 128 MiB for nothing.
#[derive(Debug)]
struct UndrainedLogGuard {
    /// PIDs undrained in the previous scan. A log is turned off after two scans: a new child may
    /// have no drainer yet.
    seen: BTreeSet<u32>,
    /// Called for the first child; `None` afterwards, or when there is nothing to call.
    tell: Option<fn(NotRecorded)>,
}

/// Children that log nothing because they are not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRecorded {
    /// The first one that was seen.
    Child {
        /// Its process id.
        pid: u32,
        /// What a user calls it.
        name: String,
    },
    /// This many came and went between two scans.
    Several(usize),
}

impl UndrainedLogGuard {
    fn look(&mut self, family: &mut ProcessTree) {
        let unread = family.unread_logs();
        for found in unread.iter().filter(|found| self.seen.contains(&found.process.pid)) {
            if let Ok(segment) = SegmentFile::open(&found.path) {
                drop(Held::of_launcher(&segment));
            }
            if let Some(tell) = self.tell.take() {
                let (pid, name) = (found.process.pid, process::usual_name(found.process.pid));
                tell(NotRecorded::Child { pid, name });
            }
        }
        self.seen = unread.iter().map(|found| found.process.pid).collect();
    }

    /// Reports, at the end, the children that came and went between two scans.
    fn conclude(&self, family: &ProcessTree) {
        let children = family.members.len() - 1;
        if let Some(tell) = self.tell.filter(|_| children > 0) {
            tell(NotRecorded::Several(children));
        }
    }
}

/// What happens to children that the user did not want to record.
#[derive(Debug, Clone, Copy)]
pub enum Unwanted {
    /// They keep their mode.
    LeftAlone,
    /// They stop logging, and the callback is called for the first.
    Silenced {
        /// Called once.
        tell: Option<fn(NotRecorded)>,
    },
}

/// Removes segments of ended descendants while the program runs: one that forks all day would fill
/// the memory they live in.
#[derive(Debug)]
pub struct SegmentCleaner {
    stop: Arc<AtomicBool>,
    sweeper: JoinHandle<ProcessTree>,
}

/// Time between two scans. A child's segment is about a megabyte, so this bounds their memory at
/// any sane fork rate.
const PAUSE: Duration = Duration::from_millis(250);

impl SegmentCleaner {
    /// Begins.
    pub fn start(mut family: ProcessTree, unwanted: Unwanted) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sweeper = std::thread::spawn(move || {
            let mut silencer = match unwanted {
                Unwanted::LeftAlone => None,
                Unwanted::Silenced { tell } => Some(UndrainedLogGuard { seen: BTreeSet::new(), tell }),
            };
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(PAUSE);
                if let Some(silencer) = &mut silencer {
                    silencer.look(&mut family);
                }
                family.remove_ended_children();
            }
            if let Some(silencer) = &silencer {
                silencer.conclude(&family);
            }
            family
        });
        Self { stop, sweeper }
    }

    /// Ends the cleaner; the process tree as far as it is known.
    pub fn end(self, root: u32) -> ProcessTree {
        self.stop.store(true, Ordering::Relaxed);
        self.sweeper.thread().unpark();
        self.sweeper.join().unwrap_or_else(|_| ProcessTree::of(root))
    }
}
