//! What a profile is read from: a process, a file or a recording, as the user names it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use heapwise_format::segment::{Counter, SegmentSource as _};
use heapwise_profile::Profile;
use heapwise_profile::inherited::with_inherited;
use heapwise_profile::ledger::resident_profile;
use heapwise_profile::read::Limit;
use heapwise_profile::recording::PointInTime;

use crate::clock::Clock;
use crate::failure::{Failure, Outcome};
use crate::ledger::{self, Reading};
use crate::program_end;
use crate::recording::moment::{self, Moment};
use crate::recording::read_options::ReadOptions;
use crate::recording::{moment_profile, open};
use crate::segments::{self, SegmentEntry, SegmentFile};
use crate::{file_error, input_error};
use crate::{lease, stopped};

/// What a profile is read from.
#[derive(Debug, Clone)]
pub enum Target {
    /// A process that carries the probe, or carried it until it ended.
    Process(SegmentEntry),
    /// A profile in any format that heapwise reads.
    File(PathBuf),
    /// A recording at one moment.
    Recording {
        /// The file, or the common name of numbered files.
        path: PathBuf,
        /// A point in time or a window of it.
        moment: Moment,
    },
}

/// A profile and its warnings for the user.
#[derive(Debug)]
pub struct Loaded {
    /// The profile, without symbols.
    pub profile: Profile,
    /// One line each: what the recording covers, damage, a recorder that was killed.
    pub warnings: Vec<String>,
}

/// Separates the name of a recording from a moment of it: `app.hwr@peak`, `app.hwr@305ms`.
const AT: char = '@';

impl Target {
    /// A recording at its end.
    pub fn recording(path: &Path) -> Self {
        Target::Recording { path: path.to_owned(), moment: Moment::At(PointInTime::End) }
    }

    /// A recording at the moment that `text` names: only the recording knows its marks and its
    /// length. A single time selects the peak within its step of `step_ms`.
    pub fn at(path: &Path, text: &str, step_ms: u64) -> Outcome<Self> {
        let moment = open::open(path, &ReadOptions::default())?.moment(text, step_ms)?;
        Ok(Target::Recording { path: path.to_owned(), moment })
    }

    /// What `text` names: a file (detected by content), a recording or `RECORDING@MOMENT`, a pid or
    /// a program name.
    pub fn parse(text: &str) -> Outcome<Self> {
        Self::parse_with_step(text, moment::DEFAULT_STEP_MS)
    }

    /// As `parse`; a single time selects the peak within its step of `step_ms`.
    pub fn parse_with_step(text: &str, step_ms: u64) -> Outcome<Self> {
        let path = Path::new(text);
        if open::is_recording(path) {
            return Ok(Self::recording(path));
        }
        let is_process = || text.parse::<u32>().is_ok() || !segments::of_name(text).is_empty();
        if path.exists() {
            // `top skynet` in the directory of the program `skynet` is about the process.
            let is_program = is_process() && read_file(path, Limit::default()).is_err();
            return if is_program {
                process(text).map(Target::Process)
            } else {
                Ok(Target::File(path.to_owned()))
            };
        }
        // Names of marks may hold the separator too: the recording ends at the first one that
        // leaves a recording.
        let splits =
            || text.match_indices(AT).map(|(at, _)| (Path::new(&text[..at]), &text[at + AT.len_utf8()..]));
        if let Some((path, moment)) = splits().find(|(path, _)| open::is_recording(path)) {
            return Self::at(path, moment, step_ms);
        }
        if let Some((path, _)) = splits().find(|(path, _)| path.is_file()) {
            return Err(Failure::file(path, open::NOT_A_RECORDING));
        }
        if is_process() {
            return process(text).map(Target::Process);
        }
        Err(file_error!(path, "no such file, and no process of that name carries the probe"))
    }

    /// Reads the resident memory of a running process as a profile: heap and mappings by stack,
    /// everything else by name.
    pub fn load_resident(&self) -> Outcome<Profile> {
        let Target::Process(found) = self else {
            return Err(input_error!("--resident needs a running process"));
        };
        let Some(Reading { ledger, stacks }) = ledger::read(found)? else {
            return Err(input_error!("process {} has ended: its pages are gone", found.process.pid));
        };
        Ok(resident_profile(&ledger, stacks))
    }

    /// Reads the profile.
    pub fn load(&self, options: &ReadOptions) -> Outcome<Loaded> {
        let quiet = |profile| Loaded { profile, warnings: Vec::new() };
        match self {
            Target::Process(found) => of_process(found).map(quiet),
            Target::File(path) => read_file(path, options.limit).map(quiet),
            Target::Recording { path, moment } => {
                let mut opened = open::open(path, options)?;
                let mut warnings = std::mem::take(&mut opened.warnings);
                warnings.push(opened.contains());
                Ok(Loaded { profile: moment_profile::profile(&mut opened, *moment), warnings })
            }
        }
    }
}

/// Processes to control, named by pid or program name; with no name, every running one that carries
/// the probe and does not belong to a `heapwise run`.
pub fn processes(targets: &[String]) -> Outcome<Vec<SegmentEntry>> {
    if targets.is_empty() { every_process(lease::belongs_to_run) } else { named_processes(targets) }
}

/// Processes to read, named by pid or program name; with no name, every running one that carries
/// the probe.
pub fn processes_to_read(targets: &[String]) -> Outcome<Vec<SegmentEntry>> {
    if targets.is_empty() { every_process(|_| false) } else { named_processes(targets) }
}

fn named_processes(targets: &[String]) -> Outcome<Vec<SegmentEntry>> {
    let mut all = Vec::new();
    for target in targets {
        match target.parse::<u32>() {
            Ok(pid) => all.push(segments::of_pid(pid)?),
            Err(_) => match segments::of_name(target) {
                found if found.is_empty() => {
                    return Err(input_error!(
                        "no running process named `{}` carries the probe; `heapwise ps` lists those that do",
                        target
                    ));
                }
                found => all.extend(found),
            },
        }
    }
    Ok(all)
}

fn every_process(is_left_out: impl FnMut(&SegmentEntry) -> bool) -> Outcome<Vec<SegmentEntry>> {
    let running = segments::list().into_iter().filter(|found| found.alive);
    let (left_out, found): (Vec<SegmentEntry>, Vec<SegmentEntry>) = running.partition(is_left_out);
    match (found.len(), left_out.len()) {
        (0, 0) => Err(input_error!(
            "no running process carries the probe; start one with `heapwise run`, \
             or with LD_PRELOAD=$(heapwise preload)"
        )),
        (0, _) => Err(input_error!(
            "every process with the probe belongs to a `heapwise run`; name its pid (`heapwise ps`)"
        )),
        _ => Ok(found),
    }
}

/// Exactly one process.
pub fn process(target: &str) -> Outcome<SegmentEntry> {
    let mut found = processes(std::slice::from_ref(&target.to_owned()))?;
    match found.len() {
        1 => Ok(found.remove(0)),
        count => {
            Err(input_error!("{} processes are named `{}`; give a pid from `heapwise ps`", count, target))
        }
    }
}

/// Ancestors whose stacks are shown: a tree of forks that is deeper is not usual.
const MOST_ANCESTORS: usize = 8;

/// The profile of a process now. What it inherited by `fork` is shown by the stacks of its parent,
/// where that one's segment can be read.
pub fn of_process(found: &SegmentEntry) -> Outcome<Profile> {
    with_ancestors(found, MOST_ANCESTORS)
}

fn with_ancestors(found: &SegmentEntry, ancestors: usize) -> Outcome<Profile> {
    let child = of_segment(found)?;
    let Some(inherited) = child.meta.recorded.inherited.filter(|_| ancestors > 0) else { return Ok(child) };
    // The number may be another process's by now, or of another namespace.
    let is_parent = |parent: &SegmentEntry| parent.process.starttime <= found.process.starttime;
    let parent = segments::of_pid(inherited.parent).ok().filter(is_parent);
    let parent = parent.and_then(|parent| with_ancestors(&parent, ancestors - 1).ok());
    Ok(match parent.filter(|parent| parent.meta.program == child.meta.program) {
        Some(parent) => with_inherited(child, inherited, parent),
        None => child,
    })
}

/// The profile a segment holds now.
pub fn of_segment(found: &SegmentEntry) -> Outcome<Profile> {
    let segment = found.open()?;
    let snapshot = segment.snapshot()?;
    let kept = stopped::load(&segment);
    let is_kept = kept.is_some();
    let mut profile = kept.unwrap_or_else(|| snapshot.profile());
    // The header has the number in the process's own namespace.
    profile.meta.pid = Some(found.process.pid);
    profile.meta.end = program_end::of_segment(found, &snapshot);
    // The probe's last sign of life may be older than the end of recording.
    if let Some(stop) = snapshot.stopped_at() {
        let seen_ns = match found.alive {
            true => Clock::of(found.process.pid).now_ns(),
            false => snapshot.counter(Counter::LastSeen),
        };
        profile.meta.recorded.stopped_ns = Some(seen_ns.saturating_sub(stop));
        // The program switched it off, or the controller was killed.
        if found.alive && !is_kept {
            profile.meta.comments.push("live memory lacks the blocks that were freed since then".into());
        }
    } else if found.alive {
        let start = snapshot.counter(Counter::RecordingStart).max(snapshot.counter(Counter::PeriodStart));
        profile.meta.duration_ns = Some(Clock::of(found.process.pid).now_ns().saturating_sub(start));
    }
    Ok(profile)
}

fn read_file(path: &Path, limit: Limit) -> Outcome<Profile> {
    if let Ok(segment) = SegmentFile::open(path) {
        let mut magic = [0; 8];
        segment.read_at(0, &mut magic);
        if u64::from_le_bytes(magic) == heapwise_format::segment::MAGIC {
            return Ok(segment.snapshot()?.profile());
        }
    }
    let bytes = content(path)?;
    let mut profile =
        heapwise_profile::read::read_limited(&bytes, limit).map_err(|error| Failure::file(path, error))?;
    // Most formats do not store when they were written; the file system does.
    profile.meta.time_unix_ns = profile.meta.time_unix_ns.or_else(|| modified_ns(path));
    Ok(profile)
}

/// Time of the last change, nanoseconds since the epoch.
fn modified_ns(path: &Path) -> Option<u64> {
    let time = path.metadata().and_then(|data| data.modified()).ok()?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

/// Several times the largest profile seen. A device never ends, and a sparse file is free to make.
const LARGEST_FILE_BYTES: u64 = 4 << 30;

fn content(path: &Path) -> Outcome<Vec<u8>> {
    let too_large = || file_error!(path, "is larger than 4 GiB, the most that is read of a profile");
    let failed = |error| Failure::file(path, error);
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > LARGEST_FILE_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST_FILE_BYTES { Err(too_large()) } else { Ok(bytes) }
}
