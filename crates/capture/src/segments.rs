//! Segments: finding them, in this user's directories and through processes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heapwise_format::paths::{DIRECTORIES, DIRECTORY_VARIABLE, ProcessId};
use rustix::fs::OFlags;

use super::process::{self, Status};
use crate::failure::{Failure, Outcome};
use crate::file_writers;
use crate::foreign_segment::{self, ForeignSegment};
use crate::own_files::is_own_folder;

pub use crate::segment_file::SegmentFile;

/// A segment file that was found.
#[derive(Debug, Clone)]
pub struct SegmentEntry {
    /// Path of the file, as its process names it.
    pub path: PathBuf,
    /// Its process, as this process sees it.
    pub process: ProcessId,
    /// Whether that process still runs, and with this segment: one that replaced itself by `exec`
    /// with a program that did not load the probe leaves the file behind.
    pub alive: bool,
    /// The open file, where it is not in a directory of this user's.
    foreign: Option<Arc<ForeignSegment>>,
    /// The kernel's link to the mapped file, where the segment was found through its process.
    mapping: Option<PathBuf>,
}

impl SegmentEntry {
    /// Whether the process runs at this moment, with this segment or about to have another.
    pub fn is_alive(&self) -> bool {
        process::starttime(self.process.pid) == Some(self.process.starttime)
    }

    /// The same, with its state at this moment.
    #[must_use]
    pub fn at_present(&self) -> Self {
        Self { alive: self.is_alive(), ..self.clone() }
    }

    /// Opens the segment.
    pub fn open(&self) -> Outcome<SegmentFile> {
        let process = Some(self.process);
        let Some(foreign) = &self.foreign else {
            return Ok(SegmentFile { process, ..SegmentFile::open(&self.path)? });
        };
        let file = foreign.open().map_err(|error| Failure::file(&self.path, error))?;
        Ok(SegmentFile { file, path: self.path.clone(), process, is_foreign: true })
    }

    /// Whether the file is not in a directory of this user's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// When the segment was created, in nanoseconds; 0 while it has no header.
    pub(crate) fn created_ns(&self) -> u64 {
        let header = self.open().and_then(|segment| Ok(segment.snapshot()?.header.start_monotonic_ns));
        header.unwrap_or(0)
    }

    /// Removes the file.
    pub fn remove(&self) -> io::Result<()> {
        match &self.foreign {
            Some(foreign) => foreign.remove(),
            None => fs::remove_file(&self.path),
        }
    }

    /// Whether the program called `exec` since: the process has another segment, or none.
    pub(crate) fn is_replaced(&self, segment: &SegmentFile) -> bool {
        if !segment.is_foreign && segment.is_renamed() {
            return true;
        }
        let is_gone = |link: &PathBuf| link.symlink_metadata().is_err();
        // The memory of a process that exits is gone before the process is.
        self.mapping.as_ref().is_some_and(is_gone)
            && process::memory_map(self.process.pid).is_some_and(|maps| !maps.is_empty())
            && self.is_alive()
    }

    /// Whether a process that this one started, and that has ended, left a later segment: it had
    /// called `exec` as another user.
    pub(crate) fn is_superseded(&self) -> bool {
        let created_ns = self.created_ns();
        let is_later =
            |other: &SegmentEntry| other.process == self.process && other.created_ns() > created_ns;
        !self.is_alive() && list_of_children().iter().any(is_later)
    }
}

/// Directories that may hold segments of this user.
pub fn directories() -> Vec<PathBuf> {
    if let Some(only) = std::env::var_os(DIRECTORY_VARIABLE) {
        return vec![only.into()];
    }
    let uid = process::own_uid().to_string();
    DIRECTORIES.iter().map(|pattern| pattern.replace("%u", &uid).into()).collect()
}

/// Why the directory named by the environment cannot hold segments; `None` when it can, or none is
/// named.
pub fn unusable_directory() -> Option<String> {
    let path = PathBuf::from(std::env::var_os(DIRECTORY_VARIABLE)?);
    let data = path.symlink_metadata().ok()?;
    let problem = if !data.is_dir() {
        "is not a directory"
    } else if data.uid() != process::own_uid() {
        "belongs to another user"
    } else if data.mode() & 0o077 != 0 {
        "is open to other users; chmod 700 it"
    } else {
        return None;
    };
    Some(format!("{} ({DIRECTORY_VARIABLE}) {problem}", path.display()))
}

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

fn sort(found: &mut [SegmentEntry]) {
    found.sort_by_key(|segment| (segment.process.starttime, segment.process.pid));
}

/// The segment that a running process has mapped, in whatever directory and namespace; `None` for
/// a process that this user may not trace.
pub(crate) fn of_process(pid: u32) -> Option<SegmentEntry> {
    let process = ProcessId { pid, starttime: process::starttime(pid)? };
    let status = Status::of(pid)?;
    let mapped = foreign_segment::mapped_by(pid, status.inner_pid)?;
    let foreign = match is_own(&mapped.path, mapped.inode?) {
        true => None,
        false => Some(Arc::new(ForeignSegment::mapped(&mapped, &status).ok()?)),
    };
    let mapping = Some(mapped.link());
    Some(SegmentEntry { path: mapped.path, process, alive: true, foreign, mapping })
}

/// Whether a path names this file, in a directory of this user's.
fn is_own(path: &Path, inode: u64) -> bool {
    let in_own_folder =
        path.parent().is_some_and(|parent| parent.symlink_metadata().is_ok_and(|data| is_own_folder(&data)));
    in_own_folder
        && path
            .symlink_metadata()
            .is_ok_and(|data| data.is_file() && data.uid() == process::own_uid() && data.ino() == inode)
}

/// Segments of some processes. Liveness takes two files to read, so it is checked last.
fn list_where(is_wanted: impl Fn(&ProcessId) -> bool) -> Vec<SegmentEntry> {
    let mut found: Vec<SegmentEntry> = directories()
        .iter()
        .filter(|directory| directory.symlink_metadata().is_ok_and(|data| is_own_folder(&data)))
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let process = ProcessId::from_file_name(entry.file_name().to_str()?).filter(&is_wanted)?;
            let alive = is_mapped(process, entry.metadata().map_or(0, |data| data.ino()));
            Some(SegmentEntry { path: entry.path(), process, alive, foreign: None, mapping: None })
        })
        .collect();
    number_from_here(&mut found);
    sort(&mut found);
    found
}

/// Whether the process runs with this file; true when its memory map cannot be read.
fn is_mapped(process: ProcessId, inode: u64) -> bool {
    let pid = process.pid;
    let is_this = |maps: String| {
        foreign_segment::of_memory_map(&maps, pid, pid).is_some_and(|mapped| mapped.inode == Some(inode))
    };
    process::starttime(pid) == Some(process.starttime) && process::memory_map(pid).is_none_or(is_this)
}

/// The names of segments have the numbers that processes have in their own pid namespaces: finds
/// the processes of segments that seem to have ended and still have a writer.
fn number_from_here(found: &mut [SegmentEntry]) {
    let has_writer = |path: &Path| {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
        file.is_ok_and(|file| is_regular(&file) && !file_writers::has_no_writer(&file))
    };
    let mut unknown: Vec<&mut SegmentEntry> =
        found.iter_mut().filter(|entry| !entry.is_alive() && has_writer(&entry.path)).collect();
    if unknown.is_empty() {
        return;
    }
    for running in process::list().into_iter().filter_map(of_process) {
        let is_same = |entry: &&mut &mut SegmentEntry| entry.path == running.path;
        if let Some(entry) = unknown.iter_mut().find(is_same).filter(|_| running.foreign.is_none()) {
            **entry = running;
        }
    }
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|data| data.is_file())
}

/// Segments in directories of other users, for root.
fn left_by_other_users(is_wanted: impl Fn(&ProcessId) -> bool) -> Vec<SegmentEntry> {
    let found = foreign_segment::of_other_users(is_wanted).into_iter();
    found
        .map(|(process, path, segment)| {
            let alive = is_mapped(process, segment.inode());
            SegmentEntry { path, process, alive, foreign: Some(Arc::new(segment)), mapping: None }
        })
        .collect()
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
