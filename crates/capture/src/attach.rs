//! Entry hooks in a process, and the probe in a running one: the code of a process is changed by
//! ptrace and `/proc/PID/mem`, by a plan of the crate `hooks`. docs/ATTACH.md is for users.
//!
//! Reading order: `ptrace` (the system call), `machine` (instruction sets), `memory`, `probe_image`
//! (the probe in the process), `install` (islands, cells, patches), `own_allocators`, `start`
//! (hooks before a program's first constructor), `hook_requests` (hooks for programs that were
//! started by `exec`), `threads` and `remote_call` (calls in a running process), `inject` (loading
//! the probe), `process` (attach and detach).

#[cfg(all(test, target_arch = "x86_64"))]
mod fast_path_registers;
pub(crate) mod hook_requests;
mod inject;
mod install;
mod machine;
mod memory;
pub(crate) mod own_allocators;
mod probe_image;
mod process;
pub(crate) mod ptrace;
mod remote_call;
pub(crate) mod start;
mod threads;

use std::time::Duration;

use heapwise_format::segment::{COUNTERS_OFFSET, Counter, SegmentSink as _};

pub use process::{attach, detach, is_hooked};

use crate::segments::SegmentFile;

/// Result of an attach or a detach.
#[derive(Debug)]
pub struct Attached {
    /// Functions hooked, or restored.
    pub functions: usize,
    /// Threads that were stopped.
    pub threads: usize,
    /// How long they were stopped.
    pub stopped: Duration,
    /// How long one thread was busy with loading the probe and mapping memory; `None` when there
    /// was nothing to load or to map.
    pub loading: Option<Duration>,
    /// Functions that could not be hooked, and why.
    pub refused: Vec<(String, String)>,
}

/// Notes in the segment how many functions are hooked at their entry, for reports.
pub fn note_hooks(segment: &SegmentFile, functions: usize) {
    let at = COUNTERS_OFFSET as u64 + Counter::EntryHooks as u64 * 8;
    // A segment that cannot be written leaves the number unknown.
    let _ = segment.write_at(at, &(functions as u64).to_le_bytes());
}
