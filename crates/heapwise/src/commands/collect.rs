//! `collect`: reset, start, wait with a progress bar, stop, write the profile.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use heapwise_format::segment::{Counter, Mode};

use super::{dump, switch};
use crate::console;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Overwrite};
use heapwise_capture::control::{self, Change};
use heapwise_capture::segments::{SegmentEntry, SegmentFile};
use heapwise_capture::stale_segments;
use heapwise_capture::target;
use heapwise_profile::quantity::{self, parse_duration, parse_rate};

/// Options of `collect`.
#[derive(Debug, Args)]
pub(crate) struct CollectArgs {
    /// Collect for SECONDS
    #[arg(short = 's', long, value_name = "SECONDS", value_parser = parse_duration)]
    seconds: Duration,
    /// Sample one block per RATE bytes on average
    #[arg(short = 'c', long = "rate", value_name = "RATE", default_value = "1024", value_parser = parse_rate)]
    rate: u64,
    /// Start file names with PREFIX
    #[arg(short, long, value_name = "PREFIX", default_value = "./heapwise.")]
    output: String,
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
    /// Pids or program names; every process with the probe when left out
    #[arg(value_name = "PID|NAME")]
    targets: Vec<String>,
}

/// Options of a collection.
#[derive(Debug, Clone)]
pub(crate) struct Collection {
    /// How long.
    pub time: Duration,
    /// Mean distance of samples in bytes.
    pub sample_bytes: u64,
    /// Beginning of the file names; `<program>.<pid>.heap` follows.
    pub prefix: String,
    /// Whether existing files may be replaced.
    pub overwrite: Overwrite,
}

/// Collects from the named processes.
pub(crate) fn run(args: &CollectArgs) -> Outcome {
    stale_segments::collect();
    let collection = Collection {
        time: args.seconds,
        sample_bytes: args.rate,
        prefix: args.output.clone(),
        overwrite: if args.force { Overwrite::Allow } else { Overwrite::Refuse },
    };
    for path in collection.collect(&target::processes(&args.targets)?)? {
        note!("wrote {0}; show it with: heapwise top {0}", path.display());
    }
    Ok(())
}

impl Collection {
    /// Runs the collection; returns the files written, one per process.
    pub(crate) fn collect(&self, processes: &[SegmentEntry]) -> Outcome<Vec<PathBuf>> {
        let open: Vec<(&SegmentEntry, SegmentFile, PathBuf)> = processes
            .iter()
            .map(|found| {
                let segment = switch::open_live(found)?;
                let path = self.file_name(&segment)?;
                output::refuse_existing(&path, self.overwrite)?;
                Ok((found, segment, path))
            })
            .collect::<Outcome<_>>()?;
        let start = Change::new().reset().mode(Mode::Sampled).sample_bytes(self.sample_bytes);
        let mut started = Vec::new();
        let mut collected: Outcome = Ok(());
        for (_, segment, _) in &open {
            let before = mode_of(segment);
            collected = control::apply(segment, &start).map(drop).map_err(Failure::from);
            if collected.is_err() {
                break;
            }
            started.push(before);
        }
        let collected = collected.and_then(|()| self.wait(&open)).and_then(|()| self.write(&open));
        // Each process gets its mode back, whatever failed.
        for ((found, segment, _), before) in open.iter().zip(started) {
            if found.is_alive() {
                control::apply(segment, &before?)?;
            }
        }
        collected?;
        Ok(open.into_iter().map(|(_, _, path)| path).collect())
    }

    /// Writes what was counted so far. The processes still record: after the mode has changed, frees would be
    /// subtracted while no allocation is added, and live memory of a busy program would be lost.
    fn write(&self, open: &[(&SegmentEntry, SegmentFile, PathBuf)]) -> Outcome {
        for (found, segment, path) in open {
            let mut profile = segment.snapshot()?.profile();
            profile.meta.sampling = heapwise_profile::Sampling::Poisson { mean_bytes: self.sample_bytes };
            if !found.is_alive() {
                profile.meta.comments.push("the process ended before the collection did".into());
            }
            dump::write_profile(&profile, path, self.overwrite)?;
        }
        Ok(())
    }

    fn file_name(&self, segment: &SegmentFile) -> Outcome<PathBuf> {
        let snapshot = segment.snapshot()?;
        let exe = String::from_utf8_lossy(snapshot.header.exe()).into_owned();
        let program = exe.rsplit('/').next().unwrap_or_default();
        let path = PathBuf::from(format!("{}{program}.{}.heap", self.prefix, snapshot.header.process.pid));
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match directory {
            Some(directory) if !directory.is_dir() => {
                Err(Failure::file(directory, "no such directory; create it or choose another -o"))
            }
            _ => Ok(path),
        }
    }

    /// Waits for the time to pass, for Ctrl-C, or for the last process to end.
    fn wait(&self, open: &[(&SegmentEntry, SegmentFile, PathBuf)]) -> Outcome {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .map_err(|error| Failure::Input(format!("cannot watch for Ctrl-C: {error}")))?;
        }
        let started = Instant::now();
        let bar = std::io::stderr().is_terminal();
        while started.elapsed() < self.time && !interrupted.load(Ordering::Relaxed) {
            if !open.iter().any(|(found, _, _)| found.is_alive()) {
                break;
            }
            if bar {
                self.draw(started.elapsed(), open)?;
            }
            std::thread::sleep(Duration::from_millis(100).min(self.time.saturating_sub(started.elapsed())));
        }
        if bar {
            console::text(&mut std::io::stderr(), "\r\x1b[K");
        }
        Ok(())
    }

    fn draw(&self, elapsed: Duration, open: &[(&SegmentEntry, SegmentFile, PathBuf)]) -> Outcome {
        const WIDTH: usize = 30;
        let (mut live, mut samples) = (0, 0);
        for (_, segment, _) in open {
            let snapshot = segment.snapshot()?;
            live += snapshot.live_bytes();
            samples += snapshot.counter(Counter::Recorded);
        }
        let done = (elapsed.as_secs_f64() / self.time.as_secs_f64() * WIDTH as f64) as usize;
        let bar = format!(
            "\r\x1b[K[{}{}] {} of {}   live {}   {samples} samples",
            "=".repeat(done.min(WIDTH)),
            " ".repeat(WIDTH - done.min(WIDTH)),
            quantity::duration(elapsed),
            quantity::duration(self.time),
            quantity::bytes(live as f64),
        );
        console::text(&mut std::io::stderr(), &bar);
        Ok(())
    }
}

/// The change that brings the mode in force back.
fn mode_of(segment: &SegmentFile) -> Outcome<Change> {
    let snapshot = segment.snapshot()?;
    let sample_bytes = snapshot.control().map_or(0, |control| control.sample_bytes);
    Ok(Change::new().mode(snapshot.mode()).sample_bytes(sample_bytes.max(1)))
}
