//! A process that heapwise started and its descendants: their segments, and when to remove them.
//!
//! Descendants may have another user, another root directory or other namespaces. Those are found
//! by the launcher's key in their environment, and their segments through `/proc`; the segments
//! stay open here, because a container's files end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use heapwise_format::segment::Mode;

use super::carriers::Carriers;
use super::control;
use super::lease::{self, Held};
use super::process;
use super::segments::{self, SegmentEntry, SegmentFile};

/// All known descendants of one process.
#[derive(Debug, Clone)]
pub struct ProcessTree {
    root: u32,
    members: BTreeSet<u32>,
    carriers: Carriers,
    /// Segments outside of this user's directories, by the time they were created.
    foreign: BTreeMap<(u32, u64), SegmentEntry>,
}

impl ProcessTree {
    /// The tree of `root`, which has just been started.
    pub(crate) fn of(root: u32, carriers: Carriers) -> Self {
        Self { root, members: BTreeSet::from([root]), carriers, foreign: BTreeMap::new() }
    }

    /// Running descendants, when the root has ended: those that carry its configuration of the
    /// probe, and those that overwrote their environment (redis does, for its title) and have a
    /// segment.
    pub fn survivors(&mut self) -> Vec<u32> {
        let mut all: BTreeSet<u32> = self.carriers.list().into_iter().collect();
        let segments = self.descendants();
        all.extend(segments.iter().filter(|found| found.is_alive()).map(|found| found.process.pid));
        all.into_iter().collect()
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

    /// The segment of the only descendant that was seen so far.
    pub fn only_child(&mut self) -> Option<SegmentEntry> {
        let child = self.descendants().pop();
        child.filter(|_| self.children() == 1)
    }

    /// Number of descendants with a segment that were seen so far.
    pub fn children(&self) -> usize {
        self.members.len() - 1
    }

    fn all(&mut self) -> Vec<SegmentEntry> {
        let mut family: Vec<(u64, SegmentEntry)> = Vec::new();
        self.find_foreign();
        // Oldest first, so a parent comes before its children.
        for mut found in segments::list_of_children() {
            if !found.is_alive() {
                found.process = self.carriers.seen_from_here(found.process);
            }
            let created_ns = found.created_ns();
            let is_member = |segment: SegmentFile| self.is_descendant(&segment);
            if found.process.pid == self.root || found.open().is_ok_and(is_member) {
                self.members.insert(found.process.pid);
                family.push((created_ns, found));
            }
        }
        for ((pid, created_ns), found) in &self.foreign {
            self.members.insert(*pid);
            family.push((*created_ns, found.at_present()));
        }
        self.last_of_each(family)
    }

    /// Notes the segments of running descendants that are not in this user's directories.
    fn find_foreign(&mut self) {
        for found in self.carriers.list().into_iter().filter_map(segments::of_process) {
            if found.is_foreign() && found.created_ns() != 0 {
                self.foreign.insert((found.process.pid, found.created_ns()), found);
            }
        }
    }

    /// A process that calls `exec` as another user begins another segment in another directory: its
    /// last one stays, the others are removed.
    fn last_of_each(&mut self, mut family: Vec<(u64, SegmentEntry)>) -> Vec<SegmentEntry> {
        family.sort_by_key(|(created_ns, found)| (found.process.starttime, found.process.pid, *created_ns));
        let mut last: Vec<(u64, SegmentEntry)> = Vec::new();
        for (created_ns, found) in family {
            if let Some((earlier_ns, earlier)) = last.pop_if(|(_, earlier)| earlier.process == found.process)
                && (1..created_ns).contains(&earlier_ns)
            {
                let _ = earlier.remove();
                self.foreign.remove(&(earlier.process.pid, earlier_ns));
            }
            last.push((created_ns, found));
        }
        last.into_iter().map(|(_, found)| found).collect()
    }

    /// Whether the process of a segment descends from the root. The parent of a daemon may have
    /// ended before the daemon made its segment; then it has the lease of this launcher. The parent
    /// in a segment of another user may be a number of another namespace.
    fn is_descendant(&self, segment: &SegmentFile) -> bool {
        segment.snapshot().is_ok_and(|snapshot| {
            let is_child = || self.members.contains(&snapshot.header.parent_pid);
            !segment.is_foreign && is_child() || lease::is_of_this_launcher(&snapshot)
        })
    }

    fn remove_ended_children(&mut self) {
        for found in self.descendants().iter().filter(|found| !found.is_alive()) {
            let _ = found.remove();
            self.foreign.retain(|_, known| known.process != found.process);
        }
    }

    /// Running descendants that are off, or whose log is not drained.
    fn not_recorded(&mut self) -> Vec<SegmentEntry> {
        let mut all = self.descendants();
        all.retain(|found| {
            let is_unread = |segment: SegmentFile| {
                Ok(match segment.snapshot()?.mode() {
                    Mode::Off => true,
                    Mode::Log => !control::is_drained(&segment),
                    Mode::Sampled | Mode::Exact => false,
                })
            };
            found.is_alive() && found.open().and_then(is_unread).unwrap_or(false)
        });
        all
    }
}

/// Turns off logs that no recorder drains: each would fill 128 MiB for nothing.
#[derive(Debug)]
struct UndrainedLogGuard {
    /// PIDs not recorded in the previous scan. A log is turned off after two scans: a new child may
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
        let not_recorded = family.not_recorded();
        for found in not_recorded.iter().filter(|found| self.seen.contains(&found.process.pid)) {
            if let Ok(segment) = found.open() {
                drop(Held::of_launcher(&segment));
            }
            if let Some(tell) = self.tell.take() {
                let (pid, name) = (found.process.pid, process::usual_name(found.process.pid));
                tell(NotRecorded::Child { pid, name });
            }
        }
        self.seen = not_recorded.iter().map(|found| found.process.pid).collect();
    }

    /// Reports, at the end, the children that came and went between two scans.
    fn conclude(&self, family: &ProcessTree) {
        let children = family.children();
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

/// What happens to the segments of ended descendants while the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedChildren {
    /// They are removed: a program that forks all day would fill the memory they live in.
    Removed,
    /// The only one is read later; when there are several, they are removed.
    OnlyKept,
    /// They are read later. Those in containers are kept open, because they end with the container.
    Kept,
}

/// Follows the descendants of a program while it runs.
#[derive(Debug)]
pub struct SegmentCleaner {
    stop: Arc<AtomicBool>,
    sweeper: JoinHandle<ProcessTree>,
    /// The tree as it was at the start, should the thread fail.
    at_start: ProcessTree,
}

/// Time between two scans. A child's segment is about a megabyte, so this bounds their memory at
/// any sane fork rate.
const PAUSE: Duration = Duration::from_millis(250);

impl SegmentCleaner {
    /// Begins.
    pub fn start(mut family: ProcessTree, unwanted: Unwanted, ended: EndedChildren) -> Self {
        let at_start = family.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sweeper = std::thread::spawn(move || {
            let mut silencer = match unwanted {
                Unwanted::LeftAlone => None,
                Unwanted::Silenced { tell } => Some(UndrainedLogGuard { seen: BTreeSet::new(), tell }),
            };
            loop {
                std::thread::park_timeout(PAUSE);
                if let Some(silencer) = &mut silencer {
                    silencer.look(&mut family);
                }
                // The caller scans a last time.
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                match ended {
                    EndedChildren::OnlyKept if family.only_child().is_some() => {}
                    EndedChildren::Removed | EndedChildren::OnlyKept => family.remove_ended_children(),
                    EndedChildren::Kept => family.find_foreign(),
                }
            }
            if let Some(silencer) = &silencer {
                silencer.conclude(&family);
            }
            family
        });
        Self { stop, sweeper, at_start }
    }

    /// Ends the cleaner; the process tree as far as it is known.
    pub fn end(self) -> ProcessTree {
        self.stop.store(true, Ordering::Relaxed);
        self.sweeper.thread().unpark();
        self.sweeper.join().unwrap_or(self.at_start)
    }
}
