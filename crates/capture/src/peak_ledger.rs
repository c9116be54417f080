//! The ledger of a program that is being run, read near the peak of its resident memory.
//!
//! A thread beside reads the resident bytes twenty times a second, more often at the start.
//! Whenever they exceed those of the last ledger by a few percent, it reads a new one: the last one
//! read is the one nearest to the peak.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::ledger::{self, Reading};
use crate::segments;

/// Time between two looks at the resident bytes, once the program has run for a while.
const STEP: Duration = Duration::from_millis(50);
/// Time before the first look; doubles with each one.
const FIRST_STEP: Duration = Duration::from_millis(4);
/// A new ledger is read when this many percent more are resident.
const GROWTH_PERCENT: u64 = 4;
/// After a ledger the thread waits this many times as long as the reading took, unless the resident
/// bytes grow by [`LARGE_GROWTH_PERCENT`].
const PAUSE_FACTOR: u32 = 4;
/// So much growth is read at once: each such step happens few times in the life of a program.
const LARGE_GROWTH_PERCENT: u64 = 15;

/// The ledger nearest to the peak.
#[derive(Debug, Default)]
pub struct PeakLedger {
    /// The ledger with its stacks; `None` when the program ended before one was read.
    pub reading: Option<Reading>,
    /// Time between the reading and the end of the program.
    pub age: Duration,
    /// Most resident bytes at any time up to the last look, by the kernel's count.
    pub peak_seen: u64,
}

/// The thread that watches a program.
#[derive(Debug)]
pub struct PeakWatch {
    stop: Sender<()>,
    thread: JoinHandle<PeakLedger>,
}

impl PeakWatch {
    /// Watches a process that was just started.
    pub fn start(pid: u32) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut watched = Watched::default();
            let mut step = FIRST_STEP;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(step) {
                watched.look(pid);
                step = (step * 2).min(STEP);
            }
            watched.finish()
        });
        Self { stop, thread }
    }

    /// Ends the watch: the program has ended.
    pub fn end(self) -> PeakLedger {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

#[derive(Default)]
struct Watched {
    reading: Option<Reading>,
    /// Resident bytes when it was read, by the kernel's approximate count.
    resident: u64,
    read_at: Option<Instant>,
    peak: u64,
    /// No ledger is read before.
    not_before: Option<Instant>,
}

impl Watched {
    fn look(&mut self, pid: u32) {
        let Some((resident, peak)) = ledger::resident_and_peak(pid) else { return };
        self.peak = self.peak.max(peak);
        let has_grown = |percent: u64| resident > self.resident + self.resident * percent / 100;
        let is_early = self.not_before.is_some_and(|time| Instant::now() < time);
        if !has_grown(if is_early { LARGE_GROWTH_PERCENT } else { GROWTH_PERCENT }) {
            return;
        }
        let begun = Instant::now();
        // A segment that is not ready yet, or no longer there, is read at the next look.
        let reading = segments::of_child(pid).ok().and_then(|found| ledger::read(&found).ok().flatten());
        if let Some(reading) = reading {
            self.resident = resident;
            self.read_at = Some(begun);
            self.peak = self.peak.max(reading.ledger.resident);
            self.reading = Some(reading);
        }
        self.not_before = Some(Instant::now() + begun.elapsed() * PAUSE_FACTOR);
    }

    fn finish(self) -> PeakLedger {
        let age = self.read_at.map_or(Duration::ZERO, |time| time.elapsed());
        PeakLedger { reading: self.reading, age, peak_seen: self.peak }
    }
}
