//! What a report is made of: a file, or a process, as the user names it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use heapwise_format::segment::SegmentSource as _;
use heapwise_profile::Profile;

use crate::failure::{Failure, Outcome};
use crate::input_error;
use crate::recording::read_options::ReadOptions;
use crate::recording::{moment, open, part};
use crate::segments::{self, Found, SegmentFile};

/// Processes named by pid or program name; with no name, every running one that carries the probe.
pub fn processes(targets: &[String]) -> Outcome<Vec<Found>> {
    if targets.is_empty() {
        let found: Vec<Found> = segments::list().into_iter().filter(|found| found.alive).collect();
        return match found.len() {
            0 => Err(input_error!(
                "no running process carries the probe; start one with `heapwise run`, \
                 or with LD_PRELOAD=$(heapwise preload)"
            )),
            _ => Ok(found),
        };
    }
    let mut all = Vec::new();
    for target in targets {
        match target.parse::<u32>() {
            Ok(pid) => all.push(segments::of_pid(pid)?),
            Err(_) => match segments::of_name(target) {
                found if found.is_empty() => {
                    return Err(input_error!(
                        "no running process named `{target}` carries the probe; `heapwise ps` lists those that do"
                    ));
                }
                found => all.extend(found),
            },
        }
    }
    Ok(all)
}

/// Exactly one process.
pub fn process(target: &str) -> Outcome<Found> {
    let mut found = processes(std::slice::from_ref(&target.to_owned()))?;
    match found.len() {
        1 => Ok(found.remove(0)),
        count => Err(input_error!("{count} processes are named `{target}`; give a pid from `heapwise ps`")),
    }
}

/// The profile a segment holds now.
pub fn of_segment(found: &Found) -> Outcome<Profile> {
    let segment = SegmentFile::open(&found.path)?;
    let mut profile = segment.snapshot()?.profile();
    if !found.alive {
        profile.meta.comments.push("last state of a process that has ended".into());
    }
    Ok(profile)
}

/// Stands between the name of a recording and a moment of it: `app.hwr@peak`, `app.hwr@305ms`.
pub const AT: char = '@';

/// A profile from a file (detected by content), a recording at a moment, or a process (by pid or name).
pub fn load(target: &str, reading: &ReadOptions) -> Outcome<Profile> {
    let path = Path::new(target);
    if open::is_recording(path) {
        return at_moment(path, "end", reading);
    }
    // `top skynet` in the directory where the program `skynet` lies is about the process.
    let is_process = || target.parse::<u32>().is_ok() || !segments::of_name(target).is_empty();
    if path.exists() {
        return read_file(path)
            .or_else(|failure| if is_process() { of_segment(&process(target)?) } else { Err(failure) });
    }
    if let Some((file, moment)) = target.rsplit_once(AT)
        && open::is_recording(Path::new(file))
    {
        return at_moment(Path::new(file), moment, reading);
    }
    if is_process() {
        return of_segment(&process(target)?);
    }
    Err(Failure::file(path, "no such file, and no process of that name carries the probe"))
}

/// `moment` may end in `/MS`, the step whose highest moment a time stands for.
fn at_moment(path: &Path, moment: &str, reading: &ReadOptions) -> Outcome<Profile> {
    let mut opened = open::open(path, reading)?;
    if reading.prints {
        eprintln!("heapwise: {}", opened.contains());
    }
    let (moment, step_ms) = match moment.rsplit_once('/') {
        Some((moment, step)) => (moment, step.parse().unwrap_or(moment::DEFAULT_STEP_MS)),
        None => (moment, moment::DEFAULT_STEP_MS),
    };
    let part = moment::parse(moment, opened.times(), step_ms)?;
    Ok(part::profile(&mut opened, part))
}

fn read_file(path: &Path) -> Outcome<Profile> {
    if let Ok(segment) = SegmentFile::open(path) {
        let mut magic = [0; 8];
        segment.read_at(0, &mut magic);
        if u64::from_le_bytes(magic) == heapwise_format::segment::MAGIC {
            return Ok(segment.snapshot()?.profile());
        }
    }
    let bytes = content(path)?;
    heapwise_profile::read::read(&bytes).map_err(|error| Failure::file(path, error))
}

/// Several times the largest profile seen. A device gives for ever, and a file full of holes costs its maker nothing.
const LARGEST_FILE_BYTES: u64 = 4 << 30;

fn content(path: &Path) -> Outcome<Vec<u8>> {
    let too_large = || Failure::file(path, "is larger than 4 GiB, the most that is read of a profile");
    let failed = |error| Failure::file(path, error);
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > LARGEST_FILE_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST_FILE_BYTES { Err(too_large()) } else { Ok(bytes) }
}
