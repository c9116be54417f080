//! Recording a process for a stretch of time, beside whatever else is recorded there.

use std::time::Instant;

use heapwise_format::segment::{Controller, Demand};
use heapwise_profile::Profile;
use heapwise_profile::snapshot::Baseline;

use crate::control::{self, Applied};
use crate::failure::Outcome;
use crate::lease::Held;
use crate::segments::SegmentFile;
use crate::stopped;

/// A stretch of time in which a process is recorded under a lease. Dropping it ends the lease.
#[derive(Debug)]
pub struct Window<'a> {
    segment: &'a SegmentFile,
    lease: Held,
    baseline: Baseline,
    started: Instant,
}

impl<'a> Window<'a> {
    /// Takes the lease and notes what was allocated before.
    pub fn start(segment: &'a SegmentFile, controller: Controller, demand: Demand) -> Outcome<Self> {
        let lease = Held::take(segment, controller, demand)?;
        lease.await_applied()?;
        let baseline = segment.snapshot()?.baseline();
        Ok(Self { segment, lease, baseline, started: Instant::now() })
    }

    /// Keeps the lease; to be called several times a second.
    pub fn beat(&mut self) {
        self.lease.beat();
    }

    /// What was allocated since the start, and what is live now. The process still records: after
    /// the mode has changed, frees would be subtracted while no allocation is added.
    pub fn profile(&self) -> Outcome<Profile> {
        let snapshot = self.segment.snapshot()?;
        let mut profile = snapshot.profile_since(&self.baseline);
        profile.meta.duration_ns = Some(self.started.elapsed().as_nanos() as u64);
        if snapshot.is_reset_since(&self.baseline) {
            profile.meta.comments.push("the counts were reset meanwhile; shown since then".into());
        }
        if !control::is_applied(&snapshot) {
            profile.meta.comments.push("the program allocated nothing while it was to be recorded".into());
        }
        Ok(profile)
    }

    /// Gives the lease up: the process returns to the mode that it has without it.
    pub fn end(self) -> Outcome<Applied> {
        stopped::release(self.lease)
    }
}
