//! `soak`: a long mixed load in exact and log mode. The probe's memory and the recorder's must stop
//! growing, what ended children leave must go, and at the end both accounts must be equal to the
//! block.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::account;

/// What a soak needs.
pub struct Soak {
    /// The heapwise executable.
    pub heapwise: PathBuf,
    /// The compiled `soak`.
    pub victim: PathBuf,
    /// A directory of its own.
    pub scratch: PathBuf,
    /// How long.
    pub time: Duration,
    /// Operations of each of two threads in a burst; bursts are 10 ms apart.
    pub burst: u32,
}

/// Memory at one moment, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Memory {
    /// Populated bytes of all segments of the run.
    segments: u64,
    /// heapwise itself.
    heapwise: u64,
}

impl Memory {
    fn max(self, other: Self) -> Self {
        Self { segments: self.segments.max(other.segments), heapwise: self.heapwise.max(other.heapwise) }
    }
}

/// What was seen.
#[derive(Debug)]
pub struct Figures {
    blocks: u64,
    time: Duration,
    /// Highest in the first third, while tables fill up.
    early: Memory,
    /// Highest afterwards.
    late: Memory,
    /// Size of what was written.
    file: u64,
}

/// Growth after the first third that is not a leak: a few more buckets, a child that has just
/// ended, the recorder's buffers. An hour of the weakest leak worth the name, a byte an event, is
/// hundreds of times more.
const SLACK_BYTES: u64 = 8 << 20;

impl Soak {
    /// One run in `mode` (`--exact` or `--log`).
    pub fn run(&self, mode: &str) -> Result<Figures, String> {
        let text = |error: std::io::Error| error.to_string();
        fs::create_dir_all(&self.scratch).map_err(text)?;
        let _ = fs::remove_dir_all(self.segments());
        fs::DirBuilder::new().mode(0o700).create(self.segments()).map_err(text)?;
        let (profile, output) = (self.scratch.join("soaked"), self.scratch.join("account"));
        let mut running = self
            .command()
            .args(["run", mode, "-q", "-f", "-o"])
            .arg(&profile)
            .arg("--")
            .arg(&self.victim)
            .args([self.time.as_secs().to_string(), self.burst.to_string()])
            .stdout(File::create(&output).map_err(text)?)
            .spawn()
            .map_err(text)?;
        let (started, mut early, mut late) = (Instant::now(), Memory::default(), Memory::default());
        let status = loop {
            if let Some(status) = running.try_wait().map_err(text)? {
                break status;
            }
            let now = self.memory(running.id());
            let which = if started.elapsed() < self.time / 3 { &mut early } else { &mut late };
            *which = which.max(now);
            std::thread::sleep(Duration::from_millis(100));
        };
        if !status.success() {
            return Err(format!("the program ended with {status}"));
        }
        let time = started.elapsed();
        let own = fs::read_to_string(&output).map_err(text)?;
        account::compare(|| self.command(), &profile, &own)?;
        let blocks = account::witness(&own, "alloc_objects").unwrap_or(0);
        let file = fs::metadata(&profile).map_err(text)?.len();
        let figures = Figures { blocks, time, early, late, file };
        let grown =
            late.segments > early.segments + SLACK_BYTES || late.heapwise > early.heapwise + SLACK_BYTES;
        if grown { Err(format!("memory keeps growing: {figures}")) } else { Ok(figures) }
    }

    fn segments(&self) -> PathBuf {
        self.scratch.join("segments")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.heapwise);
        command.env("HEAPWISE_DIR", self.segments()).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn memory(&self, heapwise: u32) -> Memory {
        let files = fs::read_dir(self.segments()).into_iter().flatten().flatten();
        // Blocks of 512 bytes, independent of the file system's block size.
        let segments = files.filter_map(|file| file.metadata().ok()).map(|data| data.blocks() * 512).sum();
        Memory { segments, heapwise: resident_bytes(heapwise).unwrap_or(0) }
    }
}

fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mega = |bytes: u64| bytes as f64 / 1e6;
        write!(
            out,
            "{:.0} s, {} blocks, accounts equal; segments {:.1} then {:.1} MB, heapwise {:.1} then {:.1} MB, file {:.1} MB",
            self.time.as_secs_f64(),
            self.blocks,
            mega(self.early.segments),
            mega(self.late.segments),
            mega(self.early.heapwise),
            mega(self.late.heapwise),
            mega(self.file)
        )
    }
}
