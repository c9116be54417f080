//! `collect`: record for a time with a progress bar, write the profile, leave everything as it was.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use heapwise_format::segment::{Controller, Counter, Demand, Header, Mode};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::attach::OfferArgs;
use super::{dump, switch};
use crate::console;
use crate::failure::Outcome;
use crate::output::{self, Overwrite};
use crate::{file_error, input_error};
use heapwise_capture::segments::{SegmentEntry, SegmentFile};
use heapwise_capture::stale_segments;
use heapwise_capture::target;
use heapwise_capture::window::Window;
use heapwise_profile::quantity::{self, parse_duration, parse_rate};

/// Options of `collect`.
#[derive(Debug, Args)]
pub(crate) struct CollectArgs {
    /// Collect for SECONDS
    #[arg(short = 's', long, value_name = "SECONDS", value_parser = parse_duration, help_heading = "Capture options")]
    seconds: Duration,
    /// Sample one block per RATE bytes on average
    #[arg(short = 'c', long = "rate", value_name = "RATE", default_value = "1024", value_parser = parse_rate, help_heading = "Capture options")]
    rate: u64,
    /// Start file names with PREFIX
    #[arg(
        short,
        long,
        value_name = "PREFIX",
        default_value = "./heapwise.",
        help_heading = "Output options"
    )]
    output: String,
    /// Replace existing files
    #[arg(short, long, help_heading = "Output options")]
    force: bool,
    #[command(flatten)]
    offer: OfferArgs,
    /// Pids or program names; every process with the probe when left out
    #[arg(value_name = "PID|NAME")]
    targets: Vec<String>,
}

/// The name that a process was started by: one executable may have many.
fn own_name(header: &Header) -> String {
    let first = header.cmdline.split(|byte| *byte == 0).next().filter(|name| !name.is_empty());
    let name = String::from_utf8_lossy(first.unwrap_or(header.exe()));
    name.rsplit('/').next().unwrap_or_default().trim_start_matches('-').to_owned()
}

fn is_writable(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
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
    args.offer.bring_in(&args.targets)?;
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

/// One process of a collection and the file for its profile.
struct Member<'a> {
    found: &'a SegmentEntry,
    segment: SegmentFile,
    path: PathBuf,
}

impl Collection {
    /// Runs the collection; returns the files written, one per process. Each process is recorded
    /// under a lease, which ends in any case.
    pub(crate) fn collect(&self, processes: &[SegmentEntry]) -> Outcome<Vec<PathBuf>> {
        let members: Vec<Member> =
            processes.iter().map(|found| self.member(found)).collect::<Outcome<_>>()?;
        let demand = Demand { mode: Mode::Sampled, sample_bytes: self.sample_bytes };
        let mut windows: Vec<Window> = Vec::new();
        for member in &members {
            windows.push(Window::start(&member.segment, Controller::Collect, demand)?);
        }
        self.wait(&members, &mut windows)?;
        for (member, window) in members.iter().zip(&windows) {
            self.write(member, window)?;
        }
        for (_, window) in members.iter().zip(windows).filter(|(member, _)| member.found.is_alive()) {
            window.end()?;
        }
        Ok(members.into_iter().map(|member| member.path).collect())
    }

    fn member<'a>(&self, found: &'a SegmentEntry) -> Outcome<Member<'a>> {
        let segment = switch::open_live(found)?;
        let path = self.file_name(found, &segment)?;
        output::refuse_unwritable(&path, self.overwrite)?;
        Ok(Member { found, segment, path })
    }

    fn write(&self, member: &Member<'_>, window: &Window<'_>) -> Outcome {
        let mut profile = window.profile()?;
        if !member.found.is_alive() {
            profile.meta.comments.push("the process ended before the collection did".into());
        }
        dump::write_profile(&profile, &member.path, self.overwrite)
    }

    fn file_name(&self, found: &SegmentEntry, segment: &SegmentFile) -> Outcome<PathBuf> {
        let snapshot = segment.snapshot()?;
        let program = own_name(&snapshot.header);
        let path = PathBuf::from(format!("{}{program}.{}.heap", self.prefix, found.process.pid));
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match directory {
            Some(directory) if !directory.is_dir() => {
                Err(file_error!(directory, "no such directory; create it or choose another -o"))
            }
            directory if !is_writable(directory.unwrap_or(Path::new("."))) => {
                Err(file_error!(&path, "cannot be written here; choose another -o"))
            }
            _ => Ok(path),
        }
    }

    /// Waits for the time to pass, for Ctrl-C, or for the last process to end.
    fn wait(&self, members: &[Member<'_>], windows: &mut [Window<'_>]) -> Outcome {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .map_err(|error| input_error!("cannot watch for Ctrl-C: {}", error))?;
        }
        let started = Instant::now();
        let bar = std::io::stderr().is_terminal();
        while started.elapsed() < self.time && !interrupted.load(Ordering::Relaxed) {
            if !members.iter().any(|member| member.found.is_alive()) {
                break;
            }
            windows.iter_mut().for_each(Window::beat);
            if bar {
                self.draw(started.elapsed(), members)?;
            }
            std::thread::sleep(Duration::from_millis(100).min(self.time.saturating_sub(started.elapsed())));
        }
        if bar {
            console::text(&mut std::io::stderr(), "\r\x1b[K");
        }
        Ok(())
    }

    fn draw(&self, elapsed: Duration, members: &[Member<'_>]) -> Outcome {
        const WIDTH: usize = 30;
        let (mut live, mut samples) = (0, 0);
        for member in members {
            let snapshot = member.segment.snapshot()?;
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
