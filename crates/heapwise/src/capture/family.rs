//! A process that heapwise started, and its descendants: whose segments they are, and when one can go.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

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
        let mut family = Vec::new();
        // Oldest first, so a parent comes before its children.
        for found in segments::list_of_children() {
            let parent = SegmentFile::open(&found.path)
                .and_then(|segment| segment.snapshot().map(|snapshot| snapshot.header.parent_pid));
            let is_member =
                found.process.pid == self.root || parent.is_ok_and(|parent| self.members.contains(&parent));
            if is_member {
                self.members.insert(found.process.pid);
                if found.process.pid == self.root || !found.is_alive() {
                    family.push(found);
                }
            }
        }
        family
    }

    fn remove_ended_children(&mut self) {
        for found in self.segments().iter().filter(|found| found.process.pid != self.root) {
            let _ = fs::remove_file(&found.path);
        }
    }
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
    pub fn start(mut family: Family) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sweeper = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(PAUSE);
                family.remove_ended_children();
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
