//! One round: find processes, attach, take profiles, put them into the spool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heapwise_capture::attach::{attach, note_hooks};
use heapwise_capture::control::{self, Change};
use heapwise_capture::failure::Outcome;
use heapwise_capture::segments::{self, SegmentEntry};
use heapwise_capture::{process, target};
use heapwise_format::paths::DIRECTORY_VARIABLE;
use heapwise_format::segment::Mode;
use heapwise_profile::{Metric, Profile};
use heapwise_render::export::{Format, export};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Settings;
use super::lives::Lives;
use crate::batch::{Entry, Moment};
use crate::followed::{Followed, Life, left_behind, resident_bytes};
use crate::free_memory;
use crate::identity::release_of;
use crate::policy::Candidates;
use crate::spool::Spool;
use crate::status::{ProcessStatus, Status};

/// A batch of more bytes is stored, and another one begun.
const BATCH_BYTES: usize = 1 << 20;

/// The processes of the host, and what is known of them.
#[derive(Debug)]
pub(super) struct Rounds {
    settings: Settings,
    spool: Arc<Spool>,
    followed: BTreeMap<Life, Followed>,
    lives: Lives,
    candidates: Candidates,
    pub(super) status: Status,
    batch: Vec<u8>,
    entries: u64,
}

impl Rounds {
    pub(super) fn new(settings: Settings, spool: Arc<Spool>) -> Self {
        Self {
            followed: BTreeMap::new(),
            lives: Lives::load(&settings.spool),
            candidates: Candidates::new(settings.policy.clone()),
            status: Status::default(),
            batch: Vec::new(),
            entries: 0,
            settings,
            spool,
        }
    }

    /// Takes a profile of every process, and the last one of processes that ended.
    pub(super) fn take(&mut self) {
        self.attach();
        let found = list();
        let mut left = Vec::new();
        for entry in &found {
            // A segment of another version, or one that is being created.
            let Ok(life) = Life::of(entry) else { continue };
            match entry.alive {
                true => self.follow(life, entry),
                false => left.push((life, entry)),
            }
        }
        self.finish_ended(|life| found.iter().any(|entry| entry.alive && is_of(entry, life)));
        for (life, entry) in left {
            if !self.lives.has_ended(life) && !self.followed.contains_key(&life) {
                match left_behind(entry, &self.settings.names) {
                    // It never recorded.
                    Ok((moment, profile)) if profile.samples.is_empty() => {
                        self.lives.note(life, moment.time_ns, true);
                    }
                    last => self.add_last(life, last),
                }
            }
        }
        self.take_running();
        self.flush();
        self.lives.keep(|process| found.iter().any(|entry| entry.process == process));
        self.lives.save();
        self.status.counts.rounds += 1;
    }

    /// Waits until a process ends, and takes its last profile; at most `time`. Whether one ended.
    pub(super) fn wait(&mut self, time: Duration) -> bool {
        self.followed.values_mut().for_each(Followed::beat);
        let handles = self.followed.values().filter_map(Followed::handle);
        let mut handles: Vec<PollFd<'_>> = handles.map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        // A signal ends the wait; the caller looks whether it is to stop.
        let ready = poll(&mut handles, Some(&limit)).unwrap_or(0);
        drop(handles);
        if ready > 0 {
            self.finish_ended(|_| true);
            self.flush();
            self.lives.save();
            let followed = &self.followed;
            let is_followed = |row: &ProcessStatus| followed.values().any(|one| one.pid() == row.pid);
            self.status.processes.retain(is_followed);
        }
        ready > 0
    }

    /// Brings the probe into processes that the policy names.
    fn attach(&mut self) {
        for pid in self.candidates.find(process::has_probe) {
            match bring_in(pid) {
                Ok(()) => self.status.counts.attached += 1,
                Err(failure) => {
                    self.status.counts.attach_failures += 1;
                    self.status.problem = Some(format!("{pid}: {failure}"));
                }
            }
        }
    }

    fn follow(&mut self, life: Life, entry: &SegmentEntry) {
        if !self.followed.contains_key(&life) {
            match Followed::new(entry.clone(), &self.settings.names) {
                Ok(followed) => drop(self.followed.insert(life, followed)),
                Err(failure) => return self.fail(entry.process.pid, &failure),
            }
        }
        let Some(sample_bytes) = self.settings.sample_bytes else { return };
        let recording = self.followed.get_mut(&life).map_or(Ok(()), |followed| followed.record(sample_bytes));
        if let Err(failure) = recording {
            self.fail(entry.process.pid, &failure);
        }
    }

    /// Takes the last profile of followed processes that ended, or have another segment.
    fn finish_ended(&mut self, is_present: impl Fn(Life) -> bool) {
        let is_over = |(life, followed): (&Life, &Followed)| !followed.is_alive() || !is_present(*life);
        let over: Vec<Life> =
            self.followed.iter().filter(|pair| is_over(*pair)).map(|(life, _)| *life).collect();
        for life in over {
            if let Some(followed) = self.followed.remove(&life) {
                self.add_last(life, followed.last_profile());
            }
        }
    }

    fn add_last(&mut self, life: Life, last: Outcome<(Moment, Profile)>) {
        match last {
            Ok((mut moment, profile)) => {
                self.status.counts.ended += 1;
                moment.time_ns = self.lives.last_time_ns(life, moment.time_ns);
                self.lives.note(life, moment.time_ns, true);
                self.add(moment, profile);
            }
            Err(failure) => {
                self.lives.note(life, 0, true);
                self.fail(life.process.pid, &failure);
            }
        }
    }

    fn take_running(&mut self) {
        let mut processes = Vec::new();
        for life in self.followed.keys().copied().collect::<Vec<_>>() {
            let Some(followed) = self.followed.get_mut(&life) else { continue };
            let pid = followed.pid();
            match followed.profile() {
                Ok((moment, profile)) => {
                    self.lives.note(life, moment.time_ns, false);
                    let row = status_of(&moment, &profile);
                    let labels = self.add(moment, profile);
                    processes.push(ProcessStatus { labels, ..row });
                }
                Err(failure) => self.fail(pid, &failure),
            }
        }
        self.status.processes = processes;
    }

    /// Adds a profile to the batch; the labels that it got.
    fn add(&mut self, mut moment: Moment, mut profile: Profile) -> crate::batch::Labels {
        if moment.labels.release.is_empty() {
            moment.labels.release = release_of(&profile);
        }
        let labels = moment.labels.clone();
        if let Some(options) = &self.settings.symbols {
            let mut options = options.clone();
            if process::has_other_root(moment.pid) {
                options.sysroot = Some(format!("/proc/{}/root", moment.pid).into());
            }
            let report = heapwise_symbolize::symbolize(&mut profile, &options);
            if report.modules.iter().any(|module| module.image.is_some()) {
                free_memory::release();
            }
        }
        let mut encoded = Vec::new();
        // Writing to memory does not fail.
        let _ = export(&profile, Format::Heapwise, Metric::InuseSpace, &mut encoded);
        self.status.counts.profiles += 1;
        self.status.counts.profile_bytes += encoded.len() as u64;
        Entry::new(moment, encoded).append_to(&mut self.batch);
        self.entries += 1;
        if self.batch.len() >= BATCH_BYTES {
            self.flush();
        }
        labels
    }

    /// Puts the batch into the spool.
    fn flush(&mut self) {
        if self.entries == 0 {
            return;
        }
        if let Err(error) = self.spool.append(&self.batch, self.entries) {
            self.status.problem = Some(format!("spool: {error}"));
        }
        self.batch = Vec::new();
        self.entries = 0;
    }

    fn fail(&mut self, pid: u32, failure: &heapwise_capture::failure::Failure) {
        // A process that ended meanwhile has its turn when its end is noticed.
        if process::starttime(pid).is_some() {
            self.status.counts.failures += 1;
            self.status.problem = Some(format!("{pid}: {failure}"));
        }
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.followed.values_mut().for_each(Followed::release);
    }
}

/// Segments of this host; with a directory of segments in the environment, of that directory.
fn list() -> Vec<SegmentEntry> {
    match std::env::var_os(DIRECTORY_VARIABLE) {
        Some(_) => segments::list(),
        None => segments::list_all(),
    }
}

fn is_of(entry: &SegmentEntry, life: Life) -> bool {
    entry.process == life.process && Life::of(entry).is_ok_and(|found| found == life)
}

/// Attaches; recording starts with the agent's lease.
fn bring_in(pid: u32) -> Outcome {
    let attached = attach(pid, "mode:off")?;
    let segment = target::process(&pid.to_string())?.open()?;
    note_hooks(&segment, attached.functions);
    control::write(&segment, &Change::new().mode(Mode::Off))
}

fn status_of(moment: &Moment, profile: &Profile) -> ProcessStatus {
    let total = profile.total();
    ProcessStatus {
        labels: moment.labels.clone(),
        program: moment.program.clone(),
        pid: moment.pid,
        live_bytes: total.inuse_bytes.max(0.0) as u64,
        live_objects: total.inuse_objects.max(0.0) as u64,
        allocated_bytes: total.alloc_bytes as u64,
        allocated_objects: total.alloc_objects as u64,
        peak_bytes: profile.meta.peak_bytes.unwrap_or(0),
        resident_bytes: resident_bytes(moment.pid),
    }
}
