//! Recording the descendants of a program while they run, each into a recording of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use heapwise_format::paths::ProcessId;

use super::drain::{RecordOptions, Recorded};
use super::process_tree::ProcessTree;
use super::recorder_thread::{Offer, RecorderThread};
use super::segments::SegmentEntry;
use crate::failure::{Failure, Outcome};

/// Time between two scans for children. A log holds far more than a child writes in that time.
const PAUSE: Duration = Duration::from_millis(50);

/// The recordings of a program's descendants.
#[derive(Debug)]
pub struct ChildRecorder {
    stop: Arc<AtomicBool>,
    watcher: JoinHandle<Vec<Child>>,
}

/// A descendant and its recording.
#[derive(Debug)]
pub struct Child {
    /// Its process id.
    pub pid: u32,
    /// What it ran.
    pub program: String,
    /// What was recorded.
    pub recorded: Outcome<Recorded>,
    /// It runs on, unrecorded.
    pub runs_on: bool,
}

impl Child {
    /// Its peak; 0 where that was not recorded.
    pub fn peak_bytes(&self) -> u64 {
        self.recorded.as_ref().map_or(0, |recorded| recorded.peak.0)
    }
}

impl ChildRecorder {
    /// Records each descendant of a program with `options`, into a file named by its pid.
    pub fn watch(family: ProcessTree, options: RecordOptions) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let watcher = std::thread::spawn(move || watch(family, &options, &stopped));
        Self { stop, watcher }
    }

    /// The program has ended: ends all recordings.
    pub fn end(self) -> Outcome<Vec<Child>> {
        self.stop.store(true, Ordering::Relaxed);
        self.watcher.thread().unpark();
        self.watcher.join().map_err(|_| Failure::new("the recorder of children failed unexpectedly"))
    }
}

fn watch(mut family: ProcessTree, options: &RecordOptions, stop: &AtomicBool) -> Vec<Child> {
    let mut known: Vec<ProcessId> = Vec::new();
    let (mut followed, mut ended): (Vec<(SegmentEntry, RecorderThread)>, Vec<Child>) =
        (Vec::new(), Vec::new());
    loop {
        // Read before the scan, so that the scan sees every child that started before the end.
        let is_last = stop.load(Ordering::Relaxed);
        for found in family.descendants() {
            let is_same = |(child, _): &(SegmentEntry, RecorderThread)| child.process == found.process;
            let place = followed.iter().position(is_same);
            if let Some(place) = place {
                if followed[place].1.offer(&found) == Offer::Taken {
                    followed[place].0 = found;
                    continue;
                }
                // It has the recording of an earlier segment, which the new one replaces.
                drop(followed.swap_remove(place).1.end());
            }
            if place.is_some() || !known.contains(&found.process) {
                known.push(found.process);
                let path = path_of(&options.path, found.process.pid);
                let options = RecordOptions { path, ..options.clone() };
                followed.push((found.clone(), RecorderThread::start(found, options)));
            }
        }
        let is_over =
            |(_, following): &mut (SegmentEntry, RecorderThread)| is_last || following.is_finished();
        ended.extend(followed.extract_if(.., is_over).map(|(found, following)| end(&found, following)));
        if is_last {
            return ended;
        }
        std::thread::park_timeout(PAUSE);
    }
}

/// Ends one recording, and with it the lease on a running child. Removes the segment of an ended
/// one.
fn end(found: &SegmentEntry, following: RecorderThread) -> Child {
    let recorded = following.end();
    let runs_on = found.is_alive();
    let segment = found.open();
    let snapshot = segment.as_ref().ok().and_then(|segment| segment.snapshot().ok());
    let exe = snapshot.map(|snapshot| String::from_utf8_lossy(snapshot.header.exe()).into_owned());
    if !runs_on {
        let _ = found.remove();
    }
    let program = exe.as_deref().and_then(|exe| exe.rsplit('/').next()).unwrap_or_default().to_owned();
    Child { pid: found.process.pid, program, recorded, runs_on }
}

/// `app.hwr` → `app.1234.hwr`.
fn path_of(path: &Path, pid: u32) -> PathBuf {
    match path.extension() {
        Some(end) => path.with_extension(format!("{pid}.{}", end.to_string_lossy())),
        None => path.with_extension(pid.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_childs_recording_is_named_by_its_number() {
        assert_eq!(path_of(Path::new("d/app.hwr"), 12), Path::new("d/app.12.hwr"));
        assert_eq!(path_of(Path::new("app"), 12), Path::new("app.12"));
    }
}
