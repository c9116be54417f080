//! The ledger of a program that is being run, read near the peak of its resident memory.
//!
//! A thread beside reads the resident bytes twenty times a second, more often at the start.
//! Whenever they exceed those of the last ledger by a few percent, it reads a new one: the one with
//! the most resident bytes is the one nearest to the peak. For a recording it reads others in
//! between, so that there is one twice a second.

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
const PAUSE_FACTOR: u32 = 20;
/// So much growth is read at once: each such step happens few times in the life of a program.
const LARGE_GROWTH_PERCENT: u64 = 50;

/// Time between two ledgers of a recording, or [`PAUSE_FACTOR`].
const SAMPLE: Duration = Duration::from_millis(500);

/// The main lines of a ledger and when it was read.
#[derive(Debug)]
pub struct LedgerSample {
    /// When.
    pub time: Instant,
    /// Name and resident bytes of each main line.
    pub lines: Vec<(String, u64)>,
}

/// The ledger nearest to the peak.
#[derive(Debug, Clone, Default)]
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
    /// Watches a process.
    pub fn start(pid: u32) -> Self {
        Self::start_with(Watched::new(pid, None))
    }

    /// Watches a process and sends ledgers in steady intervals.
    pub fn start_sampling(pid: u32, samples: Sender<LedgerSample>) -> Self {
        Self::start_with(Watched::new(pid, Some(samples)))
    }

    fn start_with(mut watched: Watched) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut step = FIRST_STEP;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(step) {
                watched.look();
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

struct Watched {
    pid: u32,
    samples: Option<Sender<LedgerSample>>,
    /// No ledger is read for a sample before.
    next_sample: Instant,
    reading: Option<Reading>,
    /// Resident bytes when it was read, by the kernel's approximate count.
    resident: u64,
    read_at: Option<Instant>,
    peak: u64,
    /// No ledger is read before.
    not_before: Option<Instant>,
}

impl Watched {
    fn new(pid: u32, samples: Option<Sender<LedgerSample>>) -> Self {
        Self {
            pid,
            samples,
            next_sample: Instant::now(),
            reading: None,
            resident: 0,
            read_at: None,
            peak: 0,
            not_before: None,
        }
    }

    fn look(&mut self) {
        let Some((resident, peak)) = ledger::resident_and_peak(self.pid) else { return };
        self.peak = self.peak.max(peak);
        let begun = Instant::now();
        let has_grown = |percent: u64| resident > self.resident + self.resident * percent / 100;
        let is_early = self.not_before.is_some_and(|time| begun < time);
        let is_peak = has_grown(if is_early { LARGE_GROWTH_PERCENT } else { GROWTH_PERCENT });
        let is_sample = self.samples.is_some() && begun >= self.next_sample;
        if !is_peak && !is_sample {
            return;
        }
        // A segment that is not ready yet, or no longer there, is read at the next look.
        let found = segments::of_child(self.pid).ok();
        if let Some(reading) = found.and_then(|found| ledger::read_once(&found).ok().flatten()) {
            if let Some(samples) = &self.samples {
                let lines = reading.ledger.main_lines(0).into_iter();
                let lines = lines.map(|(name, bytes)| (name.to_owned(), bytes)).collect();
                // A recorder that has ended needs no more of them.
                let _ = samples.send(LedgerSample { time: begun, lines });
            }
            self.peak = self.peak.max(reading.ledger.resident);
            if is_peak {
                (self.resident, self.read_at, self.reading) = (resident, Some(begun), Some(reading));
            }
        }
        let (now, took) = (Instant::now(), begun.elapsed());
        self.not_before = Some(now + took * PAUSE_FACTOR);
        self.next_sample = now + SAMPLE.max(took * PAUSE_FACTOR);
    }

    fn finish(self) -> PeakLedger {
        let age = self.read_at.map_or(Duration::ZERO, |time| time.elapsed());
        PeakLedger { reading: self.reading, age, peak_seen: self.peak }
    }
}
