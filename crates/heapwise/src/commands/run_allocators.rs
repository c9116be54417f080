//! The allocators inside the program of `run`, which are found while it runs: its constants may be
//! 45 MiB.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use heapwise_hooks::family::{self, Family};

/// A search in a thread.
pub(super) struct AllocatorSearch {
    executable: PathBuf,
    thread: JoinHandle<Vec<Family>>,
}

impl AllocatorSearch {
    /// Begins, in the executable of a process.
    pub(super) fn start(pid: u32) -> Option<Self> {
        let executable = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let path = executable.clone();
        Some(Self { executable, thread: thread::spawn(move || family::of_executable(&path)) })
    }

    /// The allocators of `program`, which may have taken the place of the executable by `exec`.
    pub(super) fn end(search: Option<Self>, program: &Path) -> Vec<Family> {
        let same = search.filter(|search| search.executable == program);
        let found = same.and_then(|search| search.thread.join().ok());
        found.unwrap_or_else(|| family::of_executable(program))
    }
}
