//! The recording of a program that is being run, on a thread beside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use heapwise_format::segment::State;
use heapwise_profile::ProgramEnd;

use super::drain::{self, RecordOptions, Recorded};
use super::segments::{self, SegmentEntry, SegmentFile};
use crate::failure::{Failure, Outcome};
use crate::process;

/// Longest time between two searches for a segment.
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

/// A program being recorded.
#[derive(Debug)]
pub struct RecorderThread {
    stop: Arc<AtomicBool>,
    recorder: JoinHandle<Outcome<Recorded>>,
    /// For the exit status of the program, which its parent reads.
    status: Option<Sender<ProgramEnd>>,
    succession: Arc<Mutex<Succession>>,
}

/// The segments of a process that calls `exec`, one after the other. One in a container may later
/// be reached by its open file only, which another thread has.
#[derive(Debug, Default)]
struct Succession {
    /// When the segment was created that is recorded, or was recorded last.
    current_ns: u64,
    /// A later one.
    next: Option<SegmentEntry>,
    /// The recorder takes no further one.
    is_over: bool,
}

impl Succession {
    /// Goes on to a segment that is later than the last. The probe creates the file first and
    /// writes its header later.
    fn accept(&mut self, segment: &SegmentFile) -> bool {
        let Ok(snapshot) = segment.snapshot() else { return false };
        let created_ns = snapshot.header.start_realtime_ns;
        if snapshot.state() == State::Starting || created_ns <= self.current_ns {
            return false;
        }
        self.current_ns = created_ns;
        self.next.take_if(|next| next.created_ns() <= created_ns);
        true
    }
}

/// What became of a segment that was offered to a recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is the recorded one, or an earlier one, or the recorder goes on with it.
    Taken,
    /// It is a later one, and the recorder has ended.
    TooLate,
}

impl RecorderThread {
    /// Records a process that has just started from its first event.
    pub fn start(found: SegmentEntry, options: RecordOptions) -> Self {
        Self::start_with(found.process.pid, Some(found), options, None, None)
    }

    /// As [`RecorderThread::start`], for a child of this process: [`RecorderThread::end_with`]
    /// brings its exit status.
    pub fn start_own(pid: u32, options: RecordOptions) -> Self {
        let (sender, receiver) = std::sync::mpsc::channel();
        Self::start_with(pid, None, options, Some(sender), Some(receiver))
    }

    fn start_with(
        pid: u32,
        mut known: Option<SegmentEntry>,
        options: RecordOptions,
        status: Option<Sender<ProgramEnd>>,
        told: Option<Receiver<ProgramEnd>>,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let succession = Arc::new(Mutex::new(Succession::default()));
        let segments = Arc::clone(&succession);
        let recorder = std::thread::spawn(move || {
            // `exec` starts a new segment, and so a new recording in place of the last.
            let mut last = None;
            loop {
                let found = match await_segment(pid, known, &segments, &stopped) {
                    Ok(found) => found,
                    Err(failure) => return last.ok_or(failure),
                };
                let told = || told.as_ref()?.recv().ok();
                let recorded = drain::record(&found.1, &found.0, &options, &stopped, told);
                let mut segments = lock(&segments);
                known = segments.next.take();
                let is_replaced = recorded.as_ref().is_ok_and(|recorded| recorded.is_replaced);
                if !is_replaced && known.is_none() {
                    segments.is_over = true;
                    return recorded;
                }
                last = recorded.ok();
            }
        });
        Self { stop, recorder, status, succession }
    }

    /// Names a segment of the process, which is recorded next if it is later than the present one.
    pub(crate) fn offer(&self, found: &SegmentEntry) -> Offer {
        let created_ns = found.created_ns();
        let mut segments = lock(&self.succession);
        if created_ns > segments.current_ns {
            if segments.is_over {
                return Offer::TooLate;
            }
            segments.next = Some(found.clone());
        }
        Offer::Taken
    }

    /// Whether the program has ended and everything it left is in its recording.
    pub fn is_finished(&self) -> bool {
        self.recorder.is_finished()
    }

    /// Drains the rest and ends the recording: the program has ended or need not be recorded any
    /// longer.
    pub fn end(self) -> Outcome<Recorded> {
        self.end_with(ProgramEnd::Unknown)
    }

    /// As [`RecorderThread::end`], with the end of the program as its parent read it.
    pub fn end_with(self, end: ProgramEnd) -> Outcome<Recorded> {
        // A recorder that has failed does not wait for it.
        if let Some(status) = &self.status {
            let _ = status.send(end);
        }
        self.stop.store(true, Ordering::Relaxed);
        join(self.recorder)
    }
}

fn lock(succession: &Mutex<Succession>) -> MutexGuard<'_, Succession> {
    succession.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a recorder's result.
pub fn join(recorder: JoinHandle<Outcome<Recorded>>) -> Outcome<Recorded> {
    recorder.join().unwrap_or_else(|_| Err(Failure::new("the recorder failed unexpectedly")))
}

/// Opens the segment once: a moment later its name may refer to a new one that has no header yet.
fn await_segment(
    pid: u32,
    mut known: Option<SegmentEntry>,
    succession: &Mutex<Succession>,
    stop: &AtomicBool,
) -> Outcome<(SegmentEntry, SegmentFile)> {
    let mut pause = Duration::from_millis(1);
    loop {
        // Read before the search, which finds what an ended process left.
        let is_last = stop.load(Ordering::Relaxed) || process::starttime(pid).is_none();
        if let Ok(found) = known.take().map_or_else(|| segments::of_child(pid), Ok)
            && let Ok(segment) = found.open()
            && lock(succession).accept(&segment)
        {
            return Ok((found, segment));
        }
        let mut segments = lock(succession);
        known = segments.next.take();
        if is_last && known.is_none() {
            segments.is_over = true;
            return Err(Failure::new("nothing recorded: the program did not load the probe"));
        }
        drop(segments);
        std::thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}
