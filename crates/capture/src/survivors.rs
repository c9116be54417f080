//! Processes that a launched program leaves behind when it ends: daemons, background jobs.

use std::collections::BTreeSet;
use std::fs;

use crate::process_tree::ProcessTree;
use crate::{launch, process};

/// Running descendants of `root`, which this process started and which has ended: those that carry
/// its configuration of the probe, and those that overwrote their environment (redis does, for its
/// title) and have a segment.
#[must_use]
pub fn list(root: u32) -> Vec<u32> {
    let mut all: BTreeSet<u32> = configured().into_iter().collect();
    let segments = ProcessTree::of(root).descendants();
    all.extend(segments.iter().filter(|found| found.is_alive()).map(|found| found.process.pid));
    all.into_iter().collect()
}

/// Running processes that were started under this one and carry its configuration of the probe.
fn configured() -> Vec<u32> {
    let own = std::process::id();
    let begin = process::starttime(own).unwrap_or(0);
    let key = launch::launcher_key();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_ours = |pid: &u32| {
        *pid != own && process::starttime(*pid).is_some_and(|start| start >= begin) && carries(*pid, &key)
    };
    pids.filter(is_ours).collect()
}

/// Whether the environment of a process has this key of `HEAPWISE_CONF`.
fn carries(pid: u32, key: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let conf = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"HEAPWISE_CONF="));
    conf.is_some_and(|conf| conf.split(|byte| *byte == b',').any(|pair| pair == key.as_bytes()))
}
