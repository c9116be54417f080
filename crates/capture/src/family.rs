//! A process that heapwise started, and its descendants: whose segments they are, and when one can go.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use heapwise_format::segment::Mode;

use super::control::{self, Change};
use super::process;
use super::segments::{self, Found, SegmentFile};

/// Everyone known to descend from one process.
#[derive(Debug)]
pub struct Family {
    root: u32,
    members: BTreeSet<u32>,
}

impl Family {
    /// The family of `root`, which is running or has just ended.
    pub fn of(root: u32) -> Self {
        Self { root, members: BTreeSet::from([root]) }
    }

    /// Segments of the root and of ended descendants.
    pub fn segments(&mut self) -> Vec<Found> {
        let mut all = self.all();
        all.retain(|found| found.process.pid == self.root || !found.is_alive());
        all
    }

    /// Segments of descendants, running and ended.
    pub fn descendants(&mut self) -> Vec<Found> {
        let mut all = self.all();
        all.retain(|found| found.process.pid != self.root);
        all
    }

    fn all(&mut self) -> Vec<Found> {
        let mut family = Vec::new();
        // Oldest first, so a parent comes before its children.
        for found in segments::list_of_children() {
            let parent = SegmentFile::open(&found.path)
                .and_then(|segment| segment.snapshot().map(|snapshot| snapshot.header.parent_pid));
            let is_member =
                found.process.pid == self.root || parent.is_ok_and(|parent| self.members.contains(&parent));
            if is_member {
                self.members.insert(found.process.pid);
                family.push(found);
            }
        }
        family
    }

    fn remove_ended_children(&mut self) {
        for found in self.descendants().iter().filter(|found| !found.is_alive()) {
            let _ = fs::remove_file(&found.path);
        }
    }

    /// Running descendants that log what nobody drains.
    fn unread_logs(&mut self) -> Vec<Found> {
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

/// Turns off logs that nobody drains: each would fill 128 MB that nobody reads.
#[derive(Debug)]
struct Silencer {
    /// Who was unread at the last look: who was not is too young to have a drainer, or has not run its program yet.
    seen: BTreeSet<u32>,
    /// Told of the first child; `None` afterwards, or when nobody is to be told.
    tell: Option<fn(NotRecorded)>,
}

/// Children that log nothing because nobody records them.
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

impl Silencer {
    fn look(&mut self, family: &mut Family) {
        let unread = family.unread_logs();
        for found in unread.iter().filter(|found| self.seen.contains(&found.process.pid)) {
            let off = Change::new().mode(Mode::Off);
            let _ = SegmentFile::open(&found.path).and_then(|segment| control::write(&segment, &off));
            if let Some(tell) = self.tell.take() {
                let (pid, name) = (found.process.pid, process::usual_name(found.process.pid));
                tell(NotRecorded::Child { pid, name });
            }
        }
        self.seen = unread.iter().map(|found| found.process.pid).collect();
    }

    /// Who came and went between two looks is told of at the end.
    fn conclude(&self, family: &Family) {
        let children = family.members.len() - 1;
        if let Some(tell) = self.tell.filter(|_| children > 0) {
            tell(NotRecorded::Several(children));
        }
    }
}

/// What is done about children that nobody asked for.
#[derive(Debug, Clone, Copy)]
pub enum Unwanted {
    /// They go on as they are.
    LeftAlone,
    /// They stop logging, and perhaps the user is told of the first.
    Silenced {
        /// Called once.
        tell: Option<fn(NotRecorded)>,
    },
}

/// Removes segments of ended descendants while the program runs: one that forks all day would fill the memory
/// they live in.
#[derive(Debug)]
pub struct Sweeping {
    stop: Arc<AtomicBool>,
    sweeper: JoinHandle<Family>,
}

/// Between two looks. A child's segment is about a megabyte, so this bounds them for any sane rate of forks.
const PAUSE: Duration = Duration::from_millis(250);

impl Sweeping {
    /// Begins.
    pub fn start(mut family: Family, unwanted: Unwanted) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sweeper = std::thread::spawn(move || {
            let mut silencer = match unwanted {
                Unwanted::LeftAlone => None,
                Unwanted::Silenced { tell } => Some(Silencer { seen: BTreeSet::new(), tell }),
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

    /// Ends; the family as far as it became known.
    pub fn end(self, root: u32) -> Family {
        self.stop.store(true, Ordering::Relaxed);
        self.sweeper.thread().unpark();
        self.sweeper.join().unwrap_or_else(|_| Family::of(root))
    }
}
