//! Threads beside the program of `run`: recorders, the cleaner of segments, the reader of resident
//! memory at the peak, the search for allocators; and processes that outlive the program.

use std::sync::atomic::Ordering;
use std::time::Duration;

use heapwise_capture::child_recorder::{Child, ChildRecorder};
use heapwise_capture::drain::{RecordOptions, Recorded};
use heapwise_capture::failure::Outcome as CaptureOutcome;
use heapwise_capture::launch::Ended;
use heapwise_capture::peak_ledger::{PeakLedger, PeakWatch};
use heapwise_capture::process;
use heapwise_capture::process_tree::{EndedChildren, NotRecorded, ProcessTree, SegmentCleaner, Unwanted};
use heapwise_capture::recorder_thread::RecorderThread;
use heapwise_profile::ProgramEnd;

use super::record;
use super::run_allocators::AllocatorSearch;
use crate::failure::Outcome;

/// Time between two looks at processes that the program left behind.
const SURVIVORS_PAUSE: Duration = Duration::from_millis(100);

/// What is watched.
pub(super) struct WatchOptions {
    /// The program.
    pub(super) pid: u32,
    /// It and its descendants.
    pub(super) tree: ProcessTree,
    /// How it is recorded, in log mode.
    pub(super) log: Option<RecordOptions>,
    /// A profile is written when it has ended.
    pub(super) profile: bool,
    /// Its children are followed too.
    pub(super) children: bool,
    /// Its only child may be what the user means.
    pub(super) is_shell: bool,
    /// Nothing is printed.
    pub(super) quiet: bool,
}

/// Threads that work beside the program.
pub(super) struct Watchers {
    options: WatchOptions,
    recorder: Option<RecorderThread>,
    children: Option<ChildRecorder>,
    /// Removes the segments of children that no command reads.
    cleaner: Option<SegmentCleaner>,
    peak: Option<PeakWatch>,
    allocators: Option<AllocatorSearch>,
}

/// Their results.
pub(super) struct Watched {
    /// The recording of the program.
    pub(super) recorded: Option<CaptureOutcome<Recorded>>,
    /// Those of its children.
    pub(super) children: Option<CaptureOutcome<Vec<Child>>>,
    /// The program and its descendants.
    pub(super) tree: ProcessTree,
    /// Resident memory nearest to the peak.
    pub(super) peak_ledger: Option<PeakLedger>,
    /// Allocators inside the program.
    pub(super) allocators: Option<AllocatorSearch>,
}

impl Watchers {
    pub(super) fn start(options: WatchOptions) -> Self {
        let WatchOptions { pid, ref tree, ref log, profile, children, is_shell, quiet } = options;
        // Without `--children` no command reads the segments of children.
        let tell: Option<fn(NotRecorded)> = if quiet { None } else { Some(print_not_recorded) };
        let unwanted = if log.is_some() { Unwanted::Silenced { tell } } else { Unwanted::LeftAlone };
        let cleaning = match children {
            // Their recorders keep what they read.
            true if log.is_some() => None,
            true => Some((Unwanted::LeftAlone, EndedChildren::Kept)),
            false if is_shell => Some((unwanted, EndedChildren::OnlyKept)),
            false => Some((unwanted, EndedChildren::Removed)),
        };
        Self {
            recorder: log.clone().map(|options| RecorderThread::start_own(pid, options)),
            children: log
                .clone()
                .filter(|_| children)
                .map(|options| ChildRecorder::watch(tree.clone(), options)),
            cleaner: cleaning.map(|(unwanted, ended)| SegmentCleaner::start(tree.clone(), unwanted, ended)),
            peak: (!quiet && log.is_none()).then(|| PeakWatch::start(pid)),
            allocators: profile.then(|| AllocatorSearch::start(pid)).flatten(),
            options,
        }
    }

    /// Ends them: the recorder with the program, the others with the last process that is followed.
    pub(super) fn end(self, ended: &Ended) -> Outcome<Watched> {
        let mut options = self.options;
        let peak_ledger = self.peak.map(PeakWatch::end);
        let recorded = self.recorder.map(|recorder| recorder.end_with(ProgramEnd::from(ended)));
        if options.children {
            options.await_survivors()?;
        }
        let children = self.children.map(ChildRecorder::end);
        if let Some(cleaner) = self.cleaner {
            options.tree = cleaner.end();
        }
        if !options.children && !options.quiet {
            options.name_survivors();
        }
        let tree = options.tree;
        Ok(Watched { recorded, children, tree, peak_ledger, allocators: self.allocators })
    }
}

impl WatchOptions {
    /// Waits for the processes that the program left behind, or for Ctrl-C.
    fn await_survivors(&mut self) -> Outcome {
        let left = self.tree.survivors();
        if left.is_empty() {
            return Ok(());
        }
        let stop = record::stop_on_signal()?;
        if !self.quiet {
            note!(
                "the program has ended; recording goes on until {} ends (or until Ctrl-C)",
                names_of(&left)
            );
        }
        while !stop.load(Ordering::Relaxed) && !self.tree.survivors().is_empty() {
            std::thread::sleep(SURVIVORS_PAUSE);
        }
        Ok(())
    }

    /// Names the processes that the program left behind, which this command does not follow.
    fn name_survivors(&mut self) {
        let left = self.tree.survivors();
        let Some(first) = left.first() else { return };
        let names = names_of(&left);
        let advice = match self.log {
            Some(_) => format!("record it with `heapwise record {first} -o FILE`"),
            None => format!("look at it with `heapwise top {first}`"),
        };
        note!("the recording ends with the program; {names} runs on: {advice}, or use --children");
    }
}

/// `app (pid 12), worker (pid 13)`.
fn names_of(pids: &[u32]) -> String {
    let name = |pid: &u32| format!("{} (pid {pid})", process::usual_name(*pid));
    pids.iter().map(name).collect::<Vec<_>>().join(", ")
}

pub(super) fn print_not_recorded(children: NotRecorded) {
    match children {
        NotRecorded::Child { pid, name } => {
            note!("child {pid} ({name}) is not recorded; --children records each process");
        }
        NotRecorded::Several(children) => {
            note!("children not recorded: {children}; --children records each process");
        }
    }
}
