//! Processes that a launched program leaves behind when it ends: daemons, background jobs.

use std::collections::BTreeSet;

use crate::carriers::Carriers;
use crate::process_tree::ProcessTree;

/// Running descendants of `root`, which this process started and which has ended: those that carry
/// its configuration of the probe, and those that overwrote their environment (redis does, for its
/// title) and have a segment.
#[must_use]
pub fn list(root: u32) -> Vec<u32> {
    let mut all: BTreeSet<u32> = Carriers::new().list().into_iter().collect();
    let segments = ProcessTree::of(root).descendants();
    all.extend(segments.iter().filter(|found| found.is_alive()).map(|found| found.process.pid));
    all.into_iter().collect()
}
