//! The recording of a program that is being run, on a thread beside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use heapwise_format::segment::State;

use super::drain::{self, RecordOptions, Recorded};
use super::segments::{self, SegmentEntry, SegmentFile};
use crate::failure::{Failure, Outcome};

/// A program being recorded.
#[derive(Debug)]
pub struct RecorderThread {
    stop: Arc<AtomicBool>,
    recorder: JoinHandle<Outcome<Recorded>>,
}

impl RecorderThread {
    /// Records `pid`, just started, from its first event.
    pub fn start(pid: u32, options: RecordOptions) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let recorder = std::thread::spawn(move || {
            // `exec` starts a new segment, and so a new recording.
            loop {
                let (found, segment) = await_segment(pid, &stopped)?;
                let recorded = drain::record(&segment, &found, &options, &stopped)?;
                if !recorded.is_replaced {
                    return Ok(recorded);
                }
            }
        });
        Self { stop, recorder }
    }

    /// Whether the program has ended and everything it left is in its recording.
    pub fn is_finished(&self) -> bool {
        self.recorder.is_finished()
    }

    /// Drains the rest and ends the recording: the program has ended or need not be recorded any
    /// longer.
    pub fn end(self) -> Outcome<Recorded> {
        self.stop.store(true, Ordering::Relaxed);
        join(self.recorder)
    }
}

/// Waits for a recorder's result.
pub fn join(recorder: JoinHandle<Outcome<Recorded>>) -> Outcome<Recorded> {
    recorder.join().unwrap_or_else(|_| Err(Failure::new("the recorder failed unexpectedly")))
}

/// Opens the segment once: a moment later its name may refer to a new one that has no header yet.
fn await_segment(pid: u32, stop: &AtomicBool) -> Outcome<(SegmentEntry, SegmentFile)> {
    loop {
        let ended = stop.load(Ordering::Relaxed);
        if let Ok(found) = segments::of_child(pid)
            && let Ok(segment) = SegmentFile::open(&found.path)
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
