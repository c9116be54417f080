//! How recordings are read: on how many threads, and whether somebody watches.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use heapwise_profile::recording::Progress;

/// Options of every command that reads recordings.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "reading")]
pub struct ReadingArgs {
    /// Threads that read a recording [default: one per core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// Show how far a reading is even where stderr is no terminal
    #[arg(long)]
    progress: bool,
}

/// How a recording is read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Threads.
    pub jobs: usize,
    /// Whether somebody is told what the recording covers.
    pub tells: bool,
    /// When a bar begins to show; never when none.
    shows_after: Option<Duration>,
}

impl Default for Reading {
    /// Unwatched, on every core.
    fn default() -> Self {
        Self { tells: false, ..ReadingArgs::default().reading(false) }
    }
}

/// What takes less long needs no bar.
const PATIENCE: Duration = Duration::from_millis(500);
/// Distance of two looks of the bar.
const REFRESH: Duration = Duration::from_millis(100);
const WIDTH: usize = 40;

impl ReadingArgs {
    /// As the user in front of the terminal wants it.
    pub fn watched(&self) -> Reading {
        self.reading(std::io::stderr().is_terminal())
    }

    fn reading(&self, is_watched: bool) -> Reading {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shows_after = match (self.progress, is_watched) {
            (true, _) => Some(Duration::ZERO),
            (false, true) => Some(PATIENCE),
            (false, false) => None,
        };
        Reading { jobs: self.jobs.unwrap_or(cores).max(1), tells: true, shows_after }
    }
}

impl Reading {
    /// The bar for `total_bytes` of events, if one is wanted. It wipes itself away.
    pub fn progress(&self, total_bytes: u64) -> Option<Progress> {
        let bar = Bar::new(total_bytes, self.shows_after?);
        Some(Progress::new(move |bytes| bar.advance(bytes)))
    }
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
    fn new(total_bytes: u64, shows_after: Duration) -> Self {
        let state = State { done_bytes: 0, next: Instant::now() + shows_after, is_shown: false };
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

/// `reading ━━━━━━━───  70 % of 12.0 MB`. What is read twice counts twice, and 100 % is the most there is.
fn line(done_bytes: u64, total_bytes: u64) -> String {
    let share = (done_bytes as f64 / total_bytes.max(1) as f64).min(1.0);
    let full = (share * WIDTH as f64) as usize;
    let (bar, rest) = ("━".repeat(full), "─".repeat(WIDTH - full));
    let total = crate::quantity::bytes(total_bytes as f64);
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
