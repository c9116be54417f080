//! How recordings are read by a command: on how many threads, and with which progress bar.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use heapwise_capture::recording::read_options::ReadOptions;
use heapwise_profile::quantity;
use heapwise_profile::read::Limit;
use heapwise_profile::recording::Progress;

/// Options of every command that reads recordings.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "reading")]
#[command(next_help_heading = "Output options")]
pub(crate) struct ReadArgs {
    /// Read recordings on N threads [default: one per core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// Show progress even when stderr is not a terminal
    #[arg(long)]
    progress: bool,
    /// Read and write profiles up to SIZE: memory for a profile or a list of stacks [default: 2G],
    /// bytes of an export [default: 4G]
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    limit: Option<u64>,
}

/// A size above 0.
fn parse_limit(text: &str) -> Result<u64, String> {
    match quantity::parse_bytes(text)? {
        0 => Err("a limit of 0 reads nothing".into()),
        limit => Ok(limit),
    }
}

/// Readings that take less than this show no bar.
const BAR_DELAY: Duration = Duration::from_millis(500);
/// Time between two refreshes of the bar.
const REFRESH: Duration = Duration::from_millis(100);
const WIDTH: usize = 40;

impl ReadArgs {
    /// The limit, if one is given.
    pub(crate) fn limit_bytes(&self) -> Option<u64> {
        self.limit
    }

    /// The options with a bar on stderr where that is a terminal, or with `--progress`.
    pub(crate) fn options(&self) -> ReadOptions {
        let delay = match (self.progress, std::io::stderr().is_terminal()) {
            (true, _) => Some(Duration::ZERO),
            (false, true) => Some(BAR_DELAY),
            (false, false) => None,
        };
        let mut options = ReadOptions::default();
        options.jobs = self.jobs.unwrap_or(options.jobs).max(1);
        options.limit = self.limit.map_or(options.limit, Limit::of_memory);
        match delay {
            Some(delay) => options.with_progress(move |total_bytes| progress(total_bytes, delay)),
            None => options,
        }
    }
}

/// The bar for `total_bytes` of events. It erases itself when dropped.
fn progress(total_bytes: u64, delay: Duration) -> Progress {
    let bar = Bar::new(total_bytes, delay);
    Progress::new(move |bytes| bar.advance(bytes))
}

/// A bar on stderr.
#[derive(Debug)]
struct Bar {
    total_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    done_bytes: u64,
    next: Instant,
    is_shown: bool,
}

impl Bar {
    fn new(total_bytes: u64, delay: Duration) -> Self {
        let state = State { done_bytes: 0, next: Instant::now() + delay, is_shown: false };
        Self { total_bytes, state: Mutex::new(state) }
    }

    fn advance(&self, bytes: u64) {
        let Ok(mut state) = self.state.lock() else { return };
        state.done_bytes += bytes;
        if Instant::now() >= state.next {
            state.next = Instant::now() + REFRESH;
            state.is_shown = true;
            let text = line(state.done_bytes, self.total_bytes);
            let _ = write!(std::io::stderr(), "\r{text}");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.state.get_mut().is_ok_and(|state| state.is_shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// `reading ━━━━━━━───  70 % of 12.0 MB`. What is read twice counts twice, and 100 % is the most
/// there is.
fn line(done_bytes: u64, total_bytes: u64) -> String {
    let share = (done_bytes as f64 / total_bytes.max(1) as f64).min(1.0);
    let full = (share * WIDTH as f64) as usize;
    let (bar, rest) = ("━".repeat(full), "─".repeat(WIDTH - full));
    let total = quantity::bytes(total_bytes as f64);
    format!("reading {bar}{rest} {:>3.0} % of {total}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_never_passes_its_end() {
        assert!(line(0, 100).contains("  0 %"));
        assert_eq!(line(500, 100), line(100, 100));
        assert_eq!(line(50, 100).matches('━').count(), WIDTH / 2);
        assert_eq!(line(0, 0).matches('━').count(), 0);
    }
}
