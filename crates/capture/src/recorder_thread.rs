//! The recording of a program that is being run, on a thread beside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use heapwise_format::segment::State;
use heapwise_profile::ProgramEnd;

use super::drain::{self, RecordOptions, Recorded};
use super::segments::{self, SegmentEntry, SegmentFile};
use crate::failure::{Failure, Outcome};

/// A program being recorded.
#[derive(Debug)]
pub struct RecorderThread {
    stop: Arc<AtomicBool>,
    recorder: JoinHandle<Outcome<Recorded>>,
    /// For the exit status of the program, which its parent reads.
    status: Option<Sender<ProgramEnd>>,
    /// A segment of the process in a container, which only an open file may reach later.
    offered: Arc<Mutex<Option<SegmentEntry>>>,
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
        let offered = Arc::new(Mutex::new(None));
        let later = Arc::clone(&offered);
        let recorder = std::thread::spawn(move || {
            // `exec` starts a new segment, and so a new recording.
            loop {
                let (found, segment) = await_segment(pid, known, &stopped)?;
                let recorded =
                    drain::record(&segment, &found, &options, &stopped, || told.as_ref()?.recv().ok())?;
                let later = take(&later).filter(|later| later.created_ns() > found.created_ns());
                if !recorded.is_replaced && later.is_none() {
                    return Ok(recorded);
                }
                known = later;
            }
        });
        Self { stop, recorder, status, offered }
    }

    /// Names a segment of the process, which is recorded next if it is later than the present one.
    pub(crate) fn offer(&self, found: SegmentEntry) {
        *self.offered.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
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

fn take(offered: &Mutex<Option<SegmentEntry>>) -> Option<SegmentEntry> {
    offered.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Waits for a recorder's result.
pub fn join(recorder: JoinHandle<Outcome<Recorded>>) -> Outcome<Recorded> {
    recorder.join().unwrap_or_else(|_| Err(Failure::new("the recorder failed unexpectedly")))
}

/// Opens the segment once: a moment later its name may refer to a new one that has no header yet.
fn await_segment(
    pid: u32,
    mut known: Option<SegmentEntry>,
    stop: &AtomicBool,
) -> Outcome<(SegmentEntry, SegmentFile)> {
    loop {
        let ended = stop.load(Ordering::Relaxed);
        if let Ok(found) = known.take().map_or_else(|| segments::of_child(pid), Ok)
            && let Ok(segment) = found.open()
            && is_ready(&segment)
        {
            return Ok((found, segment));
        }
        if ended {
            return Err(Failure::new("nothing recorded: the program did not load the probe"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The probe creates the file first and writes its header later.
fn is_ready(segment: &SegmentFile) -> bool {
    segment.snapshot().is_ok_and(|snapshot| snapshot.state() != State::Starting)
}
