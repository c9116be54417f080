//! Leases: a controller has something recorded as long as it runs, and changes nothing for others.
//!
//! The mode in force is the strongest demand of the process itself and of all leases. A controller
//! that is killed loses its lease: the probe notices (see `heapwise_format::segment::Lease`).

use std::time::{Duration, Instant};

use heapwise_format::paths::ProcessId;
use heapwise_format::segment::{Controller, Demand, LEASE_SLOTS, Lease, LeaseChange, Mode, beat};
use heapwise_profile::snapshot::Snapshot;

use crate::clock::Clock;
use crate::control::{self, Applied, Change};
use crate::failure::{Failure, Outcome};
use crate::input_error;
use crate::process;
use crate::segment_file::process_of;
use crate::segments::{SegmentEntry, SegmentFile};

/// A lease of this process. Dropping it gives the lease up.
#[derive(Debug)]
pub struct Held {
    segment: SegmentFile,
    clock: Clock,
    slot: usize,
    last_beat: Instant,
    /// The process, where this one launched it.
    launched: Option<ProcessId>,
}

impl Held {
    /// Takes a lease. One log has one recorder: a second one is refused.
    pub fn take(segment: &SegmentFile, controller: Controller, demand: Demand) -> Outcome<Self> {
        let holder = own_process()?;
        let own = segment.try_clone().map_err(|error| Failure::file(segment.path(), error))?;
        let pid = process_of(&segment.snapshot()?).pid;
        let clock = Clock::of(pid);
        let slot = control::locked(segment, || {
            let slots = segment.snapshot()?.lease_slots();
            let held = |lease: &Lease| is_held(lease, clock.now_ns());
            let recorder = slots.iter().flatten().find(|lease| is_recorder(lease) && held(lease));
            if let Some(recorder) = recorder.filter(|_| controller == Controller::Record) {
                let recorder = describe(recorder);
                return Err(input_error!("process {} is recorded already by {}", pid, recorder));
            }
            let is_free = |slot: &usize| !slots[*slot].as_ref().is_some_and(held);
            let slot = (0..LEASE_SLOTS).find(is_free).ok_or_else(|| {
                input_error!("{} controllers hold leases already; `heapwise ps` lists them", LEASE_SLOTS)
            })?;
            let lease = Lease { holder, controller, demand, heartbeat_ns: clock.now_ns() };
            control::write_locked(segment, &Change::new(), &[LeaseChange::Take(slot, lease)])?;
            Ok(slot)
        })?;
        Ok(Self { segment: own, clock, slot, last_beat: Instant::now(), launched: None })
    }

    /// Changes the demand of the lease, together with other words of the control page.
    pub fn change(&self, demand: Demand, change: &Change) -> Outcome {
        control::locked(&self.segment, || {
            let lease = self.segment.snapshot()?.lease_slots()[self.slot];
            let lease = lease.ok_or_else(|| Failure::file(self.segment.path(), "the lease is gone"))?;
            let change_of_lease = LeaseChange::Take(self.slot, Lease { demand, ..lease });
            control::write_locked(&self.segment, change, &[change_of_lease])
        })
    }

    /// The lease that the probe took for this process, which started the program.
    pub fn of_launcher(segment: &SegmentFile) -> Option<Self> {
        let holder = own_process().ok()?;
        let snapshot = segment.snapshot().ok()?;
        let is_own = |lease: &Lease| lease.holder == holder && lease.controller == Controller::Run;
        let slot = snapshot.lease_slots().iter().position(|lease| lease.as_ref().is_some_and(is_own))?;
        let process = process_of(&snapshot);
        let (clock, launched) = (Clock::of(process.pid), Some(process));
        let segment = segment.try_clone().ok()?;
        Some(Self { segment, clock, slot, last_beat: Instant::now(), launched })
    }

    /// Writes the heartbeat when it is due.
    pub fn beat(&mut self) {
        if self.last_beat.elapsed() >= Duration::from_nanos(Lease::HEARTBEAT_NS) {
            self.last_beat = Instant::now();
            // A process that ended took its segment along.
            let _ = beat(&self.segment, self.slot, self.clock.now_ns());
        }
    }

    /// Waits until the probe has applied this lease.
    pub fn await_applied(&self) -> Outcome<Applied> {
        control::await_applied(&self.segment)
    }

    /// The segment of the process.
    pub(crate) fn segment(&self) -> &SegmentFile {
        &self.segment
    }

    /// Gives the lease up, and waits until the probe has applied that.
    pub fn release(self) -> Outcome<Applied> {
        let segment = self.segment.try_clone().map_err(|error| Failure::file(self.segment.path(), error))?;
        drop(self);
        control::await_applied(&segment)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A child that a launched program forked before it ended inherits the lease with its first
        // event.
        let has_ended = |launched: ProcessId| process::starttime(launched.pid) != Some(launched.starttime);
        if self.launched.is_some_and(has_ended) {
            return;
        }
        let release = [LeaseChange::Release(self.slot)];
        let _ =
            control::locked(&self.segment, || control::write_locked(&self.segment, &Change::new(), &release));
    }
}

/// Leases on a process whose holders run, those of this process excepted.
pub fn of_others(segment: &SegmentFile) -> Outcome<Vec<Lease>> {
    let own = own_process()?;
    let snapshot = segment.snapshot()?;
    Ok(held(&snapshot).into_iter().filter(|lease| lease.holder != own).collect())
}

/// Leases of a snapshot whose holders run.
pub fn held(snapshot: &Snapshot<'_, SegmentFile>) -> Vec<Lease> {
    let now_ns = Clock::of(process_of(snapshot).pid).now_ns();
    snapshot.lease_slots().into_iter().flatten().filter(|lease| is_held(lease, now_ns)).collect()
}

/// Whether this process has a lease of a launcher in a segment.
pub(crate) fn is_of_this_launcher(snapshot: &Snapshot<'_, SegmentFile>) -> bool {
    let is_ours = |own: ProcessId| {
        let mut leases = snapshot.lease_slots().into_iter().flatten();
        leases.any(|lease| lease.controller == Controller::Run && lease.holder == own)
    };
    own_process().is_ok_and(is_ours)
}

/// What the process and the controllers want to be recorded; the probe applies it at the program's
/// next allocation.
pub fn demand(snapshot: &Snapshot<'_, SegmentFile>) -> Demand {
    let own = snapshot
        .control()
        .map_or(Demand { mode: snapshot.mode(), sample_bytes: 1 }, |control| control.own_demand());
    held(snapshot).iter().fold(own, |most, lease| most.strongest(lease.demand))
}

/// Whether a running `heapwise run` started the process: it belongs to that run.
pub fn belongs_to_run(found: &SegmentEntry) -> bool {
    let leases = found.open().and_then(|segment| segment.snapshot().map(|snapshot| held(&snapshot)));
    leases.is_ok_and(|leases| leases.iter().any(|lease| lease.controller == Controller::Run))
}

/// The holder of a lease, for messages: command, pid and command line.
pub fn describe(lease: &Lease) -> String {
    let (command, pid) = (lease.controller.name(), lease.holder.pid);
    match process::command_line(pid) {
        Some(line) => format!("heapwise {command} (pid {pid}: {line})"),
        None => format!("heapwise {command} (pid {pid})"),
    }
}

/// Whether the holder reads the log, or is about to.
fn is_recorder(lease: &Lease) -> bool {
    lease.controller == Controller::Record || lease.demand.mode == Mode::Log
}

/// A holder in another pid namespace shows itself only by its heartbeat.
fn is_held(lease: &Lease, now_ns: u64) -> bool {
    process::starttime(lease.holder.pid) == Some(lease.holder.starttime)
        || lease.silence_ns(now_ns) <= Lease::SILENCE_NS
}

fn own_process() -> Outcome<ProcessId> {
    let pid = std::process::id();
    let starttime = process::starttime(pid).ok_or_else(|| Failure::new("cannot read /proc/self/stat"))?;
    Ok(ProcessId { pid, starttime })
}
