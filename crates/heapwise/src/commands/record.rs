//! `record`: every event of a running process with its time, into a recording; how `run --log`
//! keeps one, and what is said at its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use heapwise_format::segment::OnFull;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::attach::OfferArgs;
use crate::console::{closing_line, message};
use crate::failure::Outcome;
use crate::input_error;
use crate::output::{self, Overwrite};
use crate::symbols::SymbolArgs;
use heapwise_capture::drain::{self, Beginning, RecordOptions, Recorded};
use heapwise_capture::recorder_thread;
use heapwise_capture::recording::sink::Retention;
use heapwise_capture::recording::{embed, rotation};
use heapwise_capture::stale_segments;
use heapwise_capture::target;
use heapwise_profile::quantity::{self, parse_bytes, parse_duration};
use heapwise_render::Text;

/// Smallest file of a rotated recording: below this the tables at its start would be most of it.
const LEAST_FILE_BYTES: u64 = 4096;

/// Options of `record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Pid or program name
    #[arg(value_name = "PID|NAME")]
    target: String,
    /// Record for SECONDS [default: until Ctrl-C or the end of the process]
    #[arg(short = 's', long, value_name = "SECONDS", value_parser = parse_duration, help_heading = "Capture options")]
    seconds: Option<Duration>,
    /// Write the recording to FILE [default: heapwise.PROGRAM.PID.hwr]
    #[arg(short, long, value_name = "FILE", help_heading = "Output options")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(short, long, help_heading = "Output options")]
    force: bool,
    #[command(flatten)]
    offer: OfferArgs,
    #[command(flatten)]
    retention: RetentionArgs,
}

/// How a recording is kept, and what happens when it cannot keep up.
#[derive(Debug, Clone, Args)]
#[group(id = "retention")]
#[command(next_help_heading = "Capture options")]
pub(crate) struct RetentionArgs {
    /// Start another numbered file at this size
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    rotate: Option<u64>,
    /// Keep N rotated files (re-read from FILE.keep while recording)
    #[arg(long, value_name = "N", default_value = "10", requires = "rotate")]
    keep: usize,
    /// Keep the last TIME of events in memory; write them at the end and at every mark
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "rotate")]
    ring: Option<Duration>,
    /// Put symbols into the recording at its end, so that it opens on any machine
    #[arg(long = "embed-symbols")]
    embed_symbols: bool,
    /// Choose what an event does when the log is full
    #[arg(long = "on-full", value_enum, default_value = "block")]
    on_full: WhenFull,
    /// Wait for space in the log until no thread found any for TIME; then drop and count the event
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    block: Duration,
}

/// What an event does when there is no room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WhenFull {
    /// Wait, then drop and count
    Block,
    /// Drop and count
    Drop,
}

impl RetentionArgs {
    /// The options for a recording at `path`.
    pub(crate) fn record_options(&self, path: PathBuf, from: Beginning) -> RecordOptions {
        let retention = match (self.rotate, self.ring) {
            (Some(bytes), _) => {
                Retention::Rotated { bytes: bytes.max(LEAST_FILE_BYTES), files: self.keep.max(1) }
            }
            (None, Some(time)) => Retention::Ring { time },
            (None, None) => Retention::All,
        };
        let on_full = if self.on_full == WhenFull::Drop { OnFull::Drop } else { OnFull::Block };
        RecordOptions { path, retention, on_full, block: self.block, from }
    }
}

/// Fails early when the recording cannot be written, or when it or numbered files of it exist and
/// must not be replaced.
pub(crate) fn refuse_unwritable(path: &Path, overwrite: Overwrite) -> Outcome {
    output::refuse_unwritable(path, overwrite)?;
    match rotation::existing(path) {
        Some(part) => output::refuse_existing(&part, overwrite),
        None => Ok(()),
    }
}

impl RetentionArgs {
    /// What is done with a recording that has ended.
    pub(crate) fn finish(&self, recorded: &Recorded) -> Outcome {
        if self.embed_symbols {
            embed::embed(&recorded.path, |profile| drop(SymbolArgs::default().symbolize(profile)))?;
        }
        Ok(())
    }
}

/// A flag that Ctrl-C and other requests to end set.
pub(crate) fn stop_on_signal() -> Outcome<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| input_error!("cannot watch for Ctrl-C: {}", error))?;
    }
    Ok(stop)
}

/// Records a process.
pub(crate) fn run(args: &RecordArgs) -> Outcome {
    stale_segments::collect();
    args.offer.bring_in(std::slice::from_ref(&args.target))?;
    let found = target::process(&args.target)?;
    let path = match &args.output {
        Some(path) => path.clone(),
        None => default_name(&heapwise_capture::process::name(found.process.pid), found.process.pid),
    };
    refuse_unwritable(&path, if args.force { Overwrite::Allow } else { Overwrite::Refuse })?;
    // What a process left behind is read from its first event.
    let from = if found.alive { Beginning::Now } else { Beginning::Start };
    let stop = stop_on_signal()?;
    let options = args.retention.record_options(path, from);
    let worker = Arc::clone(&stop);
    let recorder = std::thread::spawn(move || {
        let segment = found.open()?;
        drain::record(&segment, &found, &options, &worker, || None)
    });
    let started = Instant::now();
    while !recorder.is_finished() && args.seconds.is_none_or(|time| started.elapsed() < time) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    stop.store(true, Ordering::Relaxed);
    let recorded = recorder_thread::join(recorder)?;
    args.retention.finish(&recorded)?;
    report(&recorded);
    suggest_summary(&recorded.path);
    Ok(())
}

/// Name of a recording that was not named.
pub(crate) fn default_name(program: &str, pid: u32) -> PathBuf {
    let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("heapwise.{program}.{pid}.hwr").into()
}

/// Says what was recorded.
pub(crate) fn report(recorded: &Recorded) {
    let events = |text: Text, count: u64| message(text, &[("n", &count.to_string())]);
    let totals = recorded.totals;
    note!("{}", message(Text::Recorded, &[("ms", &recorded.span_ms.to_string())]));
    let allocated = quantity::bytes(totals.alloc_bytes as f64) + &events(Text::InBlocks, totals.allocs);
    closing_line(Text::Allocated, &allocated);
    let (peak, ms) = recorded.peak;
    let peak = [("bytes", &*quantity::bytes(peak as f64)), ("ms", &*ms.to_string())];
    closing_line(Text::Peak, &message(Text::AfterMs, &peak));
    closing_line(Text::StillLive, &quantity::bytes(recorded.live_bytes as f64));
    if recorded.lost > 0 {
        closing_line(Text::Lost, &events(Text::Events, recorded.lost));
    }
    if recorded.waited > 0 {
        closing_line(Text::Waited, &events(Text::WaitedEvents, recorded.waited));
    }
    if recorded.lost_marks > 0 {
        closing_line(Text::Marks, &events(Text::MarksMissing, recorded.lost_marks));
    }
    closing_line(Text::RecordingFile, &recorded.path.display().to_string());
}

/// Says how to go on.
pub(crate) fn suggest_summary(path: &Path) {
    let command = format!("heapwise summary {}", path.display());
    say_err!("{}", message(Text::Next, &[("command", &command)]));
}
