//! A process that the agent follows: its segment, its lease, its names and its end.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use heapwise_capture::clock::Clock;
use heapwise_capture::failure::Outcome;
use heapwise_capture::lease::{self, Held};
use heapwise_capture::segments::{SegmentEntry, SegmentFile};
use heapwise_capture::{process, program_end, stopped};
use heapwise_format::paths::ProcessId;
use heapwise_format::segment::{Controller, Counter, Demand, Mode};
use heapwise_profile::{Profile, ProgramEnd};

use crate::batch::{End, Labels, Moment};
use crate::cgroup::{Cgroup, ROOT};
use crate::exit_status::ProcessHandle;
use crate::identity::Names;

/// One life of a program: `exec` starts another one in the same process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Life {
    pub(crate) process: ProcessId,
    /// When its segment was created, by the monotonic clock.
    pub(crate) created_ns: u64,
}

impl Life {
    /// The life that a segment is of.
    pub(crate) fn of(entry: &SegmentEntry) -> Outcome<Self> {
        let created_ns = entry.open()?.snapshot()?.header.start_monotonic_ns;
        Ok(Self { process: entry.process, created_ns })
    }
}

/// A followed process.
#[derive(Debug)]
pub(crate) struct Followed {
    entry: SegmentEntry,
    /// Kept open: a program that calls `exec` replaces the file.
    segment: SegmentFile,
    lease: Option<Held>,
    handle: Option<ProcessHandle>,
    cgroup: Cgroup,
    /// Kills of its control group for want of memory, when the process was last seen alive.
    oom_kills: Option<u64>,
    pub(crate) labels: Labels,
    pub(crate) program: String,
    start_ns: u64,
}

impl Followed {
    /// Follows the process of a segment.
    pub(crate) fn new(entry: SegmentEntry, names: &Names) -> Outcome<Self> {
        let pid = entry.process.pid;
        let segment = entry.open()?;
        let header = segment.snapshot()?.header;
        let program = String::from_utf8_lossy(header.exe()).into_owned();
        let cgroup = Cgroup::of(pid);
        Ok(Self {
            labels: names.of_process(pid, &program, &cgroup),
            oom_kills: cgroup.oom_kills(Path::new(ROOT)),
            handle: ProcessHandle::open(pid),
            lease: None,
            start_ns: header.start_realtime_ns,
            program,
            cgroup,
            segment,
            entry,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.entry.process.pid
    }

    /// Readable when the process has ended.
    pub(crate) fn handle(&self) -> Option<&ProcessHandle> {
        self.handle.as_ref()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.entry.is_alive()
    }

    /// Has the process recorded, where it is not already: takes a lease, which ends with the agent.
    pub(crate) fn record(&mut self, sample_bytes: u64) -> Outcome {
        let is_off = lease::demand(&self.segment.snapshot()?).mode == Mode::Off;
        if self.lease.is_none() && is_off {
            let demand = Demand { mode: Mode::Sampled, sample_bytes };
            self.lease = Some(Held::take(&self.segment, Controller::Agent, demand)?);
        }
        Ok(())
    }

    /// Keeps the lease.
    pub(crate) fn beat(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.beat();
        }
    }

    /// Gives the lease up; what was recorded stays readable. It does not wait for the probe: a
    /// process that does not allocate would take half a second.
    pub(crate) fn release(&mut self) {
        if self.lease.is_some() && self.entry.is_alive() {
            // Without room for the file, readers see the blocks that were not freed since.
            let _ = stopped::save(&self.segment);
        }
        self.lease = None;
    }

    /// The profile at this moment.
    pub(crate) fn profile(&mut self) -> Outcome<(Moment, Profile)> {
        self.oom_kills = self.cgroup.oom_kills(Path::new(ROOT));
        let snapshot = self.segment.snapshot()?;
        let mut profile = snapshot.profile();
        let start = snapshot.counter(Counter::RecordingStart).max(snapshot.counter(Counter::PeriodStart));
        let elapsed_ns = Clock::of(self.pid()).now_ns().saturating_sub(start);
        profile.meta.duration_ns = Some(elapsed_ns).filter(|_| start != 0);
        profile.meta.end = ProgramEnd::Running;
        Ok(self.finished(profile, now_ns(), None))
    }

    /// The last profile, after the process has ended or was replaced by another program.
    pub(crate) fn last_profile(mut self) -> Outcome<(Moment, Profile)> {
        // A lease of an ended process needs no release.
        self.lease = None;
        let is_replaced = self.entry.is_alive();
        let snapshot = self.segment.snapshot()?;
        let mut profile = snapshot.profile();
        let noted = program_end::of_segment(&self.entry.at_present(), &snapshot);
        let end = if is_replaced { End::Replaced } else { self.end(noted) };
        profile.meta.end = program_end_of(end);
        // The probe's last sign of life: every reader of the segment gets the same time.
        let time_ns = profile.meta.time_unix_ns.unwrap_or_else(now_ns);
        Ok(self.finished(profile, time_ns, Some(end)))
    }

    /// The end of the process: as the kernel knows it, else what the segment implies.
    fn end(&self, noted: ProgramEnd) -> End {
        let known = self.handle.as_ref().and_then(ProcessHandle::end).unwrap_or_else(|| end_of(noted));
        with_oom_kills(known, self.oom_kills, self.cgroup.oom_kills(Path::new(ROOT)))
    }

    fn finished(&self, mut profile: Profile, time_ns: u64, end: Option<End>) -> (Moment, Profile) {
        profile.meta.pid = Some(self.pid());
        let moment = Moment {
            time_ns,
            labels: self.labels.clone(),
            program: self.program.clone(),
            pid: self.pid(),
            start_ns: self.start_ns,
            end,
        };
        (moment, profile)
    }
}

/// The last profile of a process that ended before the agent followed it.
pub(crate) fn left_behind(entry: &SegmentEntry, names: &Names) -> Outcome<(Moment, Profile)> {
    let header = entry.open()?.snapshot()?.header;
    let profile = heapwise_capture::target::of_segment(entry)?;
    let program = String::from_utf8_lossy(header.exe()).into_owned();
    let moment = Moment {
        time_ns: profile.meta.time_unix_ns.unwrap_or_else(now_ns),
        labels: names.of_ended(&program),
        pid: entry.process.pid,
        start_ns: header.start_realtime_ns,
        end: Some(end_of(profile.meta.end)),
        program,
    };
    Ok((moment, profile))
}

/// Resident bytes of a process; 0 when it has ended.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    process::resident_bytes(pid).unwrap_or(0)
}

pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn end_of(end: ProgramEnd) -> End {
    match end {
        ProgramEnd::Exited { status } => End::Exited(status),
        ProgramEnd::Killed { signal } => End::Killed(signal),
        ProgramEnd::Replaced => End::Replaced,
        ProgramEnd::Unknown | ProgramEnd::Running => End::Unknown,
    }
}

/// The end of a process whose control group had `before` and has `now` kills for want of memory,
/// where these are known.
fn with_oom_kills(end: End, before: Option<u64>, now: Option<u64>) -> End {
    let has_grown = before.zip(now).is_some_and(|(before, now)| now > before);
    match end {
        // The kernel's signal is SIGKILL.
        End::Killed(Some(9) | None) if has_grown => End::OutOfMemory,
        end => end,
    }
}

fn program_end_of(end: End) -> ProgramEnd {
    match end {
        End::Exited(status) => ProgramEnd::Exited { status },
        End::Killed(signal) => ProgramEnd::Killed { signal },
        End::OutOfMemory => ProgramEnd::Killed { signal: Some(9) },
        End::Replaced => ProgramEnd::Replaced,
        End::Unknown => ProgramEnd::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_oom_when_the_count_of_the_group_has_grown() {
        let killed = End::Killed(Some(9));
        assert_eq!(with_oom_kills(killed, Some(1), Some(2)), End::OutOfMemory);
        assert_eq!(with_oom_kills(End::Killed(None), Some(1), Some(2)), End::OutOfMemory);
        for (before, now) in [(Some(1), Some(1)), (None, Some(1)), (Some(1), None), (None, None)] {
            assert_eq!(with_oom_kills(killed, before, now), killed);
        }
        for end in [End::Killed(Some(15)), End::Exited(Some(1)), End::Exited(None), End::Replaced] {
            assert_eq!(with_oom_kills(end, Some(1), Some(2)), end);
        }
    }
}
