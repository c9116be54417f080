//! The drainer: takes the event log out of a program's segment and writes a recording.
//!
//! ```text
//! segment ─ chunks ──→ Merger ─→ EventAccounting ─→ frames ─→ Sink
//!         ├ tallies ────────────→┘                   │
//!         └ tables ─────────────────────────────────→┘
//! ```
//!
//! It reads by `pread` only and writes three things into the segment: the clock (a thread of its
//! own, [`ticker`]), the release of drained chunks, and the time up to which events are in the
//! file. Live bytes are the probe's to count, in log mode as in exact mode. Neither side waits for
//! a dead one: the program stops waiting when the clock stops, the drainer ends when the program
//! does.

mod chunks;
mod ledgers;
mod losses;
mod marks;
mod memory_calls;
mod tables;
mod tallies;
mod ticker;

use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use heapwise_format::bytes::u64_at;
use heapwise_format::segment::{
    COUNTERS_OFFSET, ControlWord, Controller, Counter, Demand, Mode, OnFull, SegmentSource,
};
use heapwise_profile::ProgramEnd;
use heapwise_profile::printable::printable;
use heapwise_profile::recording::{EventAccounting, Merger, Totals, Until};

use super::clock::Clock;
use super::control::{self, Change};
use super::lease::Held;
use super::process;
use super::segments::{self, SegmentEntry, SegmentFile};
use crate::failure::{Failure, Outcome};
use crate::peak_ledger::{LedgerSample, PeakLedger, PeakWatch};
use crate::program_end;
use crate::recording::sink::{Opening, Retention, Sink};
use crate::stopped;

use chunks::Chunks;
use losses::Losses;
use memory_calls::MemoryCalls;
use tables::Tables;
use tallies::Tallies;
use ticker::Ticker;

/// How a program is recorded.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// Name of the recording.
    pub path: PathBuf,
    /// How it is kept.
    pub retention: Retention,
    /// What events do when the log is full.
    pub on_full: OnFull,
    /// How long they may wait.
    pub block: Duration,
    /// Whether the program's events from before now belong to the recording.
    pub from: Beginning,
}

/// Where a recording begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// With the program.
    Start,
    /// Now.
    Now,
}

/// What was recorded.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Name of the recording.
    pub path: PathBuf,
    /// Sums of its events.
    pub totals: Totals,
    /// Highest live bytes and the millisecond of it.
    pub peak: (u64, u64),
    /// Live bytes at the end.
    pub live_bytes: u64,
    /// Milliseconds it covers.
    pub span_ms: u64,
    /// Events that found no room, including those at the end of the log, which no gap in the log
    /// records.
    pub lost: u64,
    /// Events that waited for room.
    pub waited: u64,
    /// Marks of the program that had no room.
    pub lost_marks: u64,
    /// The program went on as another, with another segment.
    pub is_replaced: bool,
    /// The ledger nearest to the peak of resident memory.
    pub peak_ledger: PeakLedger,
}

/// The demand of a lease that only keeps other recorders away.
const NOTHING: Demand = Demand { mode: Mode::Off, sample_bytes: 1 };

/// Pending data is written after this time: a killed recorder loses at most this much.
const FLUSH: Duration = Duration::from_millis(500);
/// Pause when there was little to read. Chunks hold far more events than a program makes in that
/// time, and reading many at once leaves the processor to the program.
const PAUSE: Duration = Duration::from_millis(5);
/// What little is: a fast program's events of about two milliseconds.
const LITTLE_BYTES: usize = 256 << 10;
/// Distance of samples of resident memory.
const RESIDENT: Duration = Duration::from_millis(100);
/// Events held back for order before reading stops, so that memory stays bounded.
const MOST_HELD_BYTES: usize = 256 << 20;
/// Time booked between two checks for due writes: a recorder that has fallen behind still writes in
/// steps.
const STRETCH_MS: u64 = 20;
/// A checkpoint is written when the events since the last are this many times larger.
const CHECKPOINT_SHARE: u64 = 16;
/// And not before this many bytes of events.
const CHECKPOINT_BYTES: u64 = 8 << 20;

/// Records the program whose segment this is, until it ends or `stop` is set. A program that this
/// process did not start is recorded under a lease.
///
/// `status` returns how the program ended, where the caller will know.
///
/// # Errors
/// When the recording cannot be written, the segment cannot be controlled, or the program has a
/// recorder already.
pub fn record(
    segment: &SegmentFile,
    found: &SegmentEntry,
    options: &RecordOptions,
    stop: &AtomicBool,
    status: impl FnOnce() -> Option<ProgramEnd>,
) -> Outcome<Recorded> {
    let failed = |error: io::Error| Failure::file(&options.path, format!("cannot write: {error}"));
    // Before anything is written: another recorder may be at work.
    let lease = match options.from {
        Beginning::Start => Held::of_launcher(segment),
        Beginning::Now => Some(Held::take(segment, Controller::Record, NOTHING)?),
    };
    let mut drainer = Drainer::new(segment, found, options, lease).map_err(failed)?;
    drainer.begin(options)?;
    while found.is_alive() && !stop.load(Ordering::Relaxed) && !found.is_replaced(segment) {
        let read = drainer.step().map_err(failed)?;
        if read < LITTLE_BYTES {
            std::thread::sleep(PAUSE);
        }
    }
    let is_replaced = found.is_replaced(segment) || segments::is_superseded(found);
    if is_replaced {
        program_end::note(segment, ProgramEnd::Replaced);
    } else {
        let now = found.at_present();
        let end = status().unwrap_or(program_end::of_segment(&now, &segment.snapshot()?));
        program_end::note(segment, end);
    }
    let mut recorded = drainer.finish(&options.path)?;
    recorded.is_replaced = is_replaced;
    Ok(recorded)
}

struct Drainer<'a> {
    segment: &'a SegmentFile,
    /// `None` when there is nothing to control: the program has ended.
    lease: Option<Held>,
    pid: u32,
    chunks: Chunks,
    tallies: Tallies,
    tables: Tables,
    /// Losses that are not of this recording.
    before: Losses,
    merger: Merger,
    account: EventAccounting,
    sink: Sink,
    ticker: Ticker,
    watch: Option<PeakWatch>,
    ledgers: Receiver<LedgerSample>,
    memory_calls: MemoryCalls,
    marks: usize,
    flushed: Instant,
    sampled: Instant,
    /// Every event before this moment is booked.
    booked_ms: u64,
    /// The program was alive then: the recording covers the time up to here, whether or not there
    /// were events.
    seen_ms: u64,
    /// Bytes of events since the last checkpoint, and the size of that.
    since_checkpoint: u64,
    checkpoint_bytes: u64,
}

impl<'a> Drainer<'a> {
    fn new(
        segment: &'a SegmentFile,
        found: &SegmentEntry,
        options: &RecordOptions,
        lease: Option<Held>,
    ) -> io::Result<Self> {
        let snapshot = segment.snapshot().map_err(|failure| io::Error::other(failure.to_string()))?;
        let before = match options.from {
            Beginning::Start => Losses::default(),
            Beginning::Now => Losses::read(&snapshot),
        };
        let header = &snapshot.header;
        let clock = Clock::of(found.process.pid);
        let (samples, ledgers) = mpsc::channel();
        let origin_ns = match options.from {
            Beginning::Start => header.start_monotonic_ns,
            Beginning::Now => clock.now_ns(),
        };
        Ok(Self {
            segment,
            lease,
            pid: found.process.pid,
            chunks: Chunks::new(&header.layout),
            tallies: Tallies::new(&header.layout),
            tables: Tables::new(header.layout, origin_ns, before),
            before,
            merger: match options.from {
                Beginning::Start => Merger::from_start(),
                Beginning::Now => Merger::from_now(read_counter(segment, Counter::Marks)),
            },
            account: EventAccounting::default(),
            sink: Sink::create(&options.path, &options.retention)?,
            ticker: Ticker::start(segment.try_clone()?, clock, origin_ns),
            watch: Some(PeakWatch::start_sampling(found.process.pid, samples)),
            ledgers,
            memory_calls: match options.from {
                Beginning::Start => MemoryCalls::default(),
                Beginning::Now => MemoryCalls::from_now(&snapshot, origin_ns),
            },
            marks: 0,
            flushed: Instant::now(),
            sampled: Instant::now() - RESIDENT,
            booked_ms: 0,
            seen_ms: 0,
            since_checkpoint: 0,
            checkpoint_bytes: 0,
        })
    }

    fn begin(&mut self, options: &RecordOptions) -> Outcome {
        let change = Change::new()
            .set(ControlWord::OnFull, options.on_full as u64)
            .set(ControlWord::BlockMillis, options.block.as_millis() as u64);
        match &self.lease {
            Some(lease) if options.from == Beginning::Now => {
                self.chunks.skip_past(self.segment, &mut self.merger);
                let change = change.set(ControlWord::Recording, self.ticker.monotonic_ns_at(0));
                lease.change(Demand { mode: Mode::Log, ..NOTHING }, &change)
            }
            _ => control::write(self.segment, &change),
        }
    }

    /// Reads what there is and writes what is due; the number of bytes read.
    fn step(&mut self) -> io::Result<usize> {
        // Taken before the chunks are read: events before this time and these marks are all in what
        // is read now.
        if let Some(lease) = &mut self.lease {
            lease.beat();
        }
        let until = self.now();
        let now_ms = until.ms;
        self.seen_ms = now_ms;
        let read = if self.merger.held_bytes() < MOST_HELD_BYTES {
            self.chunks.read(self.segment, &mut self.merger)
        } else {
            0
        };
        self.booked_ms = self.catch_up(until)?.max(self.booked_ms);
        if self.sampled.elapsed() >= RESIDENT {
            self.sampled = Instant::now();
            if self.booked_ms == now_ms {
                self.account.pass(now_ms);
            }
            self.account.set_resident(process::resident_bytes(self.pid).unwrap_or(0));
        }
        if self.flushed.elapsed() >= FLUSH {
            self.flush()?;
        }
        Ok(read)
    }

    /// The time and the marks up to now.
    fn now(&self) -> Until {
        Until { ms: self.ticker.now_ms(), marks: read_counter(self.segment, Counter::Marks) }
    }

    /// Books the events before `until`, and writes what is due on the way; the time before which
    /// all are booked.
    fn catch_up(&mut self, until: Until) -> io::Result<u64> {
        let mut stretch_ms = self.account.tick_ms().min(until.ms);
        loop {
            stretch_ms = (stretch_ms + STRETCH_MS).min(until.ms);
            let booked_ms = self.book(Until { ms: stretch_ms, ..until });
            if self.account.is_due() {
                self.put_frames()?;
            }
            if stretch_ms == until.ms {
                return Ok(booked_ms);
            }
        }
    }

    /// Books the events before `until`; the time before which all are booked.
    fn book(&mut self, until: Until) -> u64 {
        let (tallies, segment) = (&mut self.tallies, self.segment);
        self.account.add_merged(&mut self.merger, until, &mut |tally| tallies.read(segment, tally))
    }

    /// Writes everything and says so in the segment.
    fn flush(&mut self) -> io::Result<()> {
        self.put_frames()?;
        self.sink.wait()?;
        self.flushed = Instant::now();
        self.show_recorded()
    }

    fn put_frames(&mut self) -> io::Result<()> {
        // After the chunks: what their events refer to is in the tables by now.
        for frame in self.tables.update(self.segment) {
            self.sink.put(frame)?;
        }
        for frame in self.account.take_frames() {
            self.since_checkpoint += frame.payload.len() as u64;
            self.sink.put(frame)?;
        }
        if let Some(frame) = ledgers::frame(&self.ledgers, self.ticker.now_ms()) {
            self.sink.put(frame)?;
        }
        if let Some(frame) = self.memory_calls.update(self.segment) {
            self.sink.put(frame)?;
        }
        if self.since_checkpoint >= CHECKPOINT_BYTES.max(CHECKPOINT_SHARE * self.checkpoint_bytes) {
            let checkpoint = self.account.checkpoint();
            self.checkpoint_bytes = checkpoint.payload.len() as u64;
            self.since_checkpoint = 0;
            self.sink.put(checkpoint)?;
        }
        if self.sink.is_full() {
            let opening = self.opening();
            self.sink.turn(&opening)?;
        }
        self.dump_at_marks()
    }

    /// A flight recorder writes itself down at every mark.
    fn dump_at_marks(&mut self) -> io::Result<()> {
        let marks = self.tables.marks();
        if self.sink.is_ring() {
            let new: Vec<String> = marks.iter().skip(self.marks).cloned().collect();
            for mark in new {
                let opening = self.opening();
                if let Some(path) = self.sink.dump(&opening, &mark)? {
                    let line = format!("heapwise: mark `{mark}`: wrote {}", path.display());
                    let _ = writeln!(io::stderr(), "{}", printable(&line));
                }
            }
        }
        self.marks = marks.len();
        Ok(())
    }

    /// What a further file begins with.
    fn opening(&mut self) -> Opening {
        Opening {
            tables: self.tables.all(self.segment),
            sites: self.account.all_sites(),
            checkpoint: Some(self.account.checkpoint()),
        }
    }

    /// Writes into the segment the time up to which events are in the file.
    fn show_recorded(&self) -> io::Result<()> {
        let booked_ns = self.ticker.monotonic_ns_at(self.booked_ms);
        let at = COUNTERS_OFFSET as u64 + Counter::RecordedNanos as u64 * 8;
        self.segment.file().write_all_at(&booked_ns.to_le_bytes(), at)
    }

    /// Reads to the end of what there is, in order as far as there is one, and ends the file.
    fn finish(mut self, path: &Path) -> Outcome<Recorded> {
        let failed = |error: io::Error| Failure::file(path, format!("cannot write: {error}"));
        // Later events are not wanted.
        if let Some(lease) = self.lease.take().filter(|_| process::starttime(self.pid).is_some()) {
            stopped::release(lease)?;
        }
        loop {
            let until = self.now();
            let read = self.chunks.read(self.segment, &mut self.merger);
            self.catch_up(until).map_err(failed)?;
            // What the last threads wrote by a clock of their own.
            self.book(Until::END);
            if read == 0 {
                break;
            }
        }
        while self.merger.skip_missing() {
            self.book(Until::END);
        }
        self.account.end();
        if process::starttime(self.pid).is_some() {
            self.seen_ms = self.ticker.now_ms();
        }
        self.account.pass(self.seen_ms);
        let peak_ledger = self.watch.take().map(PeakWatch::end).unwrap_or_default();
        self.flush().map_err(failed)?;
        let opening = if self.sink.is_ring() { self.opening() } else { Opening::default() };
        self.ticker.stop();
        let snapshot = self.segment.snapshot()?;
        Ok(Recorded {
            path: self.sink.end(&opening).map_err(failed)?,
            totals: self.account.totals(),
            peak: self.account.peak(),
            live_bytes: self.account.live_bytes(),
            span_ms: self.account.tick_ms(),
            lost: self.before.since(&snapshot, Counter::LostEvents),
            waited: self.before.since(&snapshot, Counter::WaitedEvents),
            lost_marks: self.before.since(&snapshot, Counter::LostMarks),
            is_replaced: false,
            peak_ledger,
        })
    }
}

/// The current value of a counter of the segment.
fn read_counter(segment: &SegmentFile, counter: Counter) -> u64 {
    let mut word = [0; 8];
    segment.read_at(COUNTERS_OFFSET as u64 + counter as u64 * 8, &mut word);
    u64_at(&word, 0).unwrap_or(0)
}
