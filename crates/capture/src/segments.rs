//! Segment files of this user: finding, opening and checking them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use heapwise_format::paths::{DIRECTORIES, DIRECTORY_VARIABLE, ProcessId};
use heapwise_format::segment::{HeaderError, SegmentSink, SegmentSource, VERSION};
use heapwise_profile::snapshot::Snapshot;

use super::process;
use crate::failure::{Failure, Outcome};
use crate::own_files::is_own_folder;
use crate::positioned_read;

/// A segment file in one of the user's directories.
#[derive(Debug, Clone)]
pub struct SegmentEntry {
    /// Path of the file.
    pub path: PathBuf,
    /// Whose it is.
    pub process: ProcessId,
    /// Whether that process still runs, and with this segment: one that replaced itself by `exec`
    /// with a program that did not load the probe leaves the file behind.
    pub alive: bool,
}

impl SegmentEntry {
    /// Whether the process runs at this moment, with this segment or about to have another.
    pub fn is_alive(&self) -> bool {
        process::starttime(self.process.pid) == Some(self.process.starttime)
    }
}

/// An open segment. Reads are positioned reads of the file, never a mapping.
#[derive(Debug)]
pub struct SegmentFile {
    file: File,
    path: PathBuf,
}

impl SegmentSource for SegmentFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let done = positioned_read::read_at(&self.file, offset, buffer);
        fence(Ordering::Acquire);
        done
    }
}

impl SegmentSink for SegmentFile {
    type Error = io::Error;

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        fence(Ordering::SeqCst);
        self.file.write_all_at(bytes, offset)
    }
}

impl SegmentFile {
    /// Opens a segment for reading and control: a regular file of this user, not a link.
    pub fn open(path: &Path) -> Outcome<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(path)
            .map_err(|error| Failure::file(path, error))?;
        let metadata = file.metadata().map_err(|error| Failure::file(path, error))?;
        if !metadata.is_file() || metadata.uid() != process::own_uid() {
            return Err(Failure::file(path, "is not a file of this user; not opened"));
        }
        Ok(Self { file, path: path.to_owned() })
    }

    /// The file itself, for locks and positioned writes.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The same segment, for another thread.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, path: self.path.clone() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the name now refers to another file: the program called `exec`.
    pub(crate) fn is_replaced(&self) -> bool {
        match (self.file.metadata(), fs::metadata(&self.path)) {
            (Ok(own), Ok(named)) => own.ino() != named.ino() || own.dev() != named.dev(),
            _ => false,
        }
    }

    /// Header and counters at this moment.
    pub fn snapshot(&self) -> Outcome<Snapshot<'_, Self>> {
        Snapshot::open(self).map_err(|error| Failure::file(&self.path, describe(error)))
    }
}

fn describe(error: HeaderError) -> String {
    match error {
        HeaderError::Short => "is cut off before the end of its header".into(),
        HeaderError::Magic => "is not a heapwise segment".into(),
        HeaderError::Version(found) => format!(
            "is a segment of version {found}, this heapwise reads version {VERSION}; \
             use the heapwise that started the program, or restart the program with this one"
        ),
        HeaderError::Field(at) => format!("has an impossible header field at byte {at}"),
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

/// Segments of some processes. Liveness takes two files to read, so it is checked last.
fn list_where(is_wanted: impl Fn(&ProcessId) -> bool) -> Vec<SegmentEntry> {
    let mut found: Vec<SegmentEntry> = directories()
        .iter()
        .filter(|directory| directory.symlink_metadata().is_ok_and(|data| is_own_folder(&data)))
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let process = ProcessId::from_file_name(name.to_str()?).filter(&is_wanted)?;
            let alive = process::starttime(process.pid) == Some(process.starttime)
                && process::maps(process.pid, name.to_str()?);
            Some(SegmentEntry { path: entry.path(), process, alive })
        })
        .collect();
    found.sort_by_key(|segment| (segment.process.starttime, segment.process.pid));
    found
}

/// Segments of processes that this one may have started. Pids are reused: an earlier process with
/// a child's pid may have left a segment behind.
pub(crate) fn list_of_children() -> Vec<SegmentEntry> {
    let own = process::starttime(std::process::id()).unwrap_or(0);
    list_where(|process| process.starttime >= own)
}

/// The segment of a process that this one started.
pub fn of_child(pid: u32) -> Outcome<SegmentEntry> {
    of_pid_among(list_of_children(), pid)
}

/// The segment of a pid: of the running process, else the newest left behind by one.
pub(crate) fn of_pid(pid: u32) -> Outcome<SegmentEntry> {
    of_pid_among(list(), pid)
}

fn of_pid_among(list: Vec<SegmentEntry>, pid: u32) -> Outcome<SegmentEntry> {
    let mut candidates: Vec<SegmentEntry> =
        list.into_iter().filter(|found| found.process.pid == pid).collect();
    candidates.sort_by_key(|found| (found.alive, found.process.starttime));
    if let Some(found) = candidates.pop() {
        return Ok(found);
    }
    Err(Failure::new(match process::uid(pid) {
        None => format!("no process {pid}, and no segment of one; `heapwise ps --dead` lists what is left"),
        Some(uid) if uid != process::own_uid() => {
            format!("process {pid} belongs to user {uid}; run heapwise as that user")
        }
        Some(_) if process::has_probe(pid) => format!(
            "process {pid} carries the probe but has no segment: it was forked and has not allocated since, \
             or there was no room for one (`heapwise ps --clean` makes room for processes that start then)"
        ),
        Some(_) => format!(
            "process {pid} does not carry the probe; `heapwise attach {pid}` brings it in, or start the \
             program with `heapwise run` or LD_PRELOAD=$(heapwise preload)"
        ),
    }))
}

/// Running processes with the probe whose program name is `name`.
pub(crate) fn of_name(name: &str) -> Vec<SegmentEntry> {
    list().into_iter().filter(|found| found.alive && process::is_called(found.process.pid, name)).collect()
}
