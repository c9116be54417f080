//! Finding segments: through processes and in directories.

use heapwise_format::paths::DIRECTORY_VARIABLE;

use super::process::{self, Status};
use crate::failure::{Failure, Outcome};
use crate::foreign_segment;
use crate::segment_directories::{left_by_other_users, list_where};
use crate::segment_entry::sort;

pub(crate) use crate::mapped_segment::of_process;

pub use crate::segment_directories::{directories, unusable_directory};
pub use crate::segment_entry::SegmentEntry;
pub use crate::segment_file::SegmentFile;

/// All segments of this user, oldest process first.
pub fn list() -> Vec<SegmentEntry> {
    list_where(|_| true)
}

/// The segments of all processes that this user may trace, and those that ended processes of other
/// users left, for root; oldest process first.
pub fn list_all() -> Vec<SegmentEntry> {
    let mut found: Vec<SegmentEntry> = process::list().into_iter().filter_map(of_process).collect();
    found.extend(list().into_iter().filter(|entry| !entry.alive));
    found.extend(left_by_other_users(|_| true).into_iter().filter(|entry| !entry.alive));
    sort(&mut found);
    found
}

/// Segments of processes that this one may have started. Pids are reused: an earlier process with
/// a child's pid may have left a segment behind.
pub(crate) fn list_of_children() -> Vec<SegmentEntry> {
    let own = process::starttime(std::process::id()).unwrap_or(0);
    let mut found = list_where(|process| process.starttime >= own);
    found.extend(left_by_other_users(|process| process.starttime >= own));
    sort(&mut found);
    found
}

/// The segment of a process that this one started.
pub fn of_child(pid: u32) -> Outcome<SegmentEntry> {
    // A number of another pid namespace may be that of an older process here.
    let own = process::starttime(std::process::id()).unwrap_or(0);
    let running = of_process(pid).filter(|found| found.process.starttime >= own);
    running.map_or_else(|| of_pid_among(list_of_children(), pid), Ok)
}

/// The segment of a pid: of the running process, else the newest left behind by one.
pub(crate) fn of_pid(pid: u32) -> Outcome<SegmentEntry> {
    of_process(pid).map_or_else(|| of_pid_among(list_all_of(pid), pid), Ok)
}

/// Segments that a running or ended process with this number may have left.
fn list_all_of(pid: u32) -> Vec<SegmentEntry> {
    let mut found = list();
    found.extend(left_by_other_users(|process| process.pid == pid));
    found
}

/// Whether a process has a segment, of any owner.
fn has_segment(pid: u32) -> bool {
    Status::of(pid).is_some_and(|status| foreign_segment::mapped_by(pid, status.inner_pid).is_some())
}

fn of_pid_among(list: Vec<SegmentEntry>, pid: u32) -> Outcome<SegmentEntry> {
    let mut candidates: Vec<SegmentEntry> =
        list.into_iter().filter(|found| found.process.pid == pid).collect();
    candidates.sort_by_key(|found| (found.alive, found.process.starttime, found.created_ns()));
    if let Some(found) = candidates.pop() {
        return Ok(found);
    }
    Err(Failure::new(match process::uid(pid) {
        None => format!("no process {pid}, and no segment of one; `heapwise ps --dead` lists what is left"),
        Some(uid) if uid != process::own_uid() => {
            format!("process {pid} belongs to user {uid}; run heapwise as that user, or as root")
        }
        Some(_) if has_segment(pid) => {
            format!("the segment of process {pid} belongs to the user who started it; run heapwise as root")
        }
        Some(_) if process::has_probe(pid) => format!(
            "process {pid} carries the probe but has no segment: it was forked and has not allocated since, \
             or there was no room for one (`heapwise ps --clean` makes room for processes that start then)"
        ),
        Some(_) => format!(
            "process {pid} does not carry the probe; `heapwise attach {pid}` brings it in, as does \
             --attach of record, collect and serve; or start the program with `heapwise run` or \
             LD_PRELOAD=$(heapwise preload)"
        ),
    }))
}

/// Running processes with the probe whose program name is `name`; for root also of other users,
/// when root has none.
pub(crate) fn of_name(name: &str) -> Vec<SegmentEntry> {
    let is_wanted = |found: &SegmentEntry| found.alive && process::is_called(found.process.pid, name);
    let own: Vec<SegmentEntry> = list().into_iter().filter(is_wanted).collect();
    let is_confined = process::own_uid() != 0 || std::env::var_os(DIRECTORY_VARIABLE).is_some();
    if !own.is_empty() || is_confined {
        return own;
    }
    list_all().into_iter().filter(is_wanted).collect()
}

/// Whether a process that this one started, and that has ended, left a later segment: it had called
/// `exec` as another user.
pub(crate) fn is_superseded(found: &SegmentEntry) -> bool {
    let created_ns = found.created_ns();
    let is_later = |other: &SegmentEntry| other.process == found.process && other.created_ns() > created_ns;
    !found.is_alive() && list_of_children().iter().any(is_later)
}
