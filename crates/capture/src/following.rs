//! The recording of a program that is being run, on a thread beside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use heapwise_format::segment::State;

use super::drain::{self, Orders, Recorded};
use super::segments::{self, Found, SegmentFile};
use crate::failure::{Failure, Outcome};

/// A program being recorded.
#[derive(Debug)]
pub struct Following {
    stop: Arc<AtomicBool>,
    recorder: JoinHandle<Outcome<Recorded>>,
}

impl Following {
    /// Records `pid`, just started, from its first event.
    pub fn start(pid: u32, orders: Orders) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let recorder = std::thread::spawn(move || {
            // A program that replaces itself by `exec` starts anew, and so does its recording.
            loop {
                let (found, segment) = await_segment(pid, &stopped)?;
                let recorded = drain::record(&segment, &found, &orders, &stopped)?;
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

    /// The program has ended, or need not be followed any longer: takes what is left and ends the recording.
    pub fn end(self) -> Outcome<Recorded> {
        self.stop.store(true, Ordering::Relaxed);
        join(self.recorder)
    }
}

/// What a recorder came to.
pub fn join(recorder: JoinHandle<Outcome<Recorded>>) -> Outcome<Recorded> {
    recorder.join().unwrap_or_else(|_| Err(Failure::new("the recorder failed unexpectedly")))
}

/// The segment, opened: by its name it may be another one a moment later, which is not described yet.
fn await_segment(pid: u32, stop: &AtomicBool) -> Outcome<(Found, SegmentFile)> {
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

/// The probe makes the file first and describes it then.
fn is_ready(segment: &SegmentFile) -> bool {
    segment.snapshot().is_ok_and(|snapshot| snapshot.state() != State::Starting)
}
