//! Directories of segments: those of this user and, for root, those of other users.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heapwise_format::paths::{DIRECTORIES, DIRECTORY_VARIABLE, ProcessId};
use rustix::fs::OFlags;

use crate::foreign_segment::{self, ForeignSegment};
use crate::own_files::is_own_folder;
use crate::segment_entry::{self, SegmentEntry};
use crate::{file_writers, mapped_segment, process};

/// Directories that may hold segments of this user.
pub fn directories() -> Vec<PathBuf> {
    if let Some(only) = std::env::var_os(DIRECTORY_VARIABLE) {
        return vec![only.into()];
    }
    let of = |uid: u32| DIRECTORIES.iter().map(move |pattern| pattern.replace("%u", &uid.to_string()).into());
    let uid = process::own_uid();
    of(uid).chain([UNMAPPED].into_iter().filter(|unmapped| *unmapped != uid).flat_map(of)).collect()
}

/// The user that a process in a new user namespace is before that has a user: its directory is one
/// of this user's then. Where it belongs to the user of this number, it is not used.
const UNMAPPED: u32 = 65534;

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

/// Segments of some processes. Liveness takes two files to read, so it is checked last.
pub(crate) fn list_where(is_wanted: impl Fn(&ProcessId) -> bool) -> Vec<SegmentEntry> {
    let mut found: Vec<SegmentEntry> = directories()
        .iter()
        .filter(|directory| directory.symlink_metadata().is_ok_and(|data| is_own_folder(&data)))
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let process = ProcessId::from_file_name(entry.file_name().to_str()?).filter(&is_wanted)?;
            let use_now = Use::of(process, entry.metadata().map_or(0, |data| data.ino()));
            Some(use_now.entry(process, entry.path(), None))
        })
        .collect();
    number_from_here(&mut found);
    segment_entry::sort(&mut found);
    found
}

/// What a process does with a segment of its name.
enum Use {
    /// It has ended, or has another segment.
    None,
    /// It has it mapped, by this link of the kernel.
    Mapped(PathBuf),
    /// It runs, and its memory map cannot be read.
    Unknown,
}

impl Use {
    fn of(process: ProcessId, inode: u64) -> Self {
        let pid = process.pid;
        if process::starttime(pid) != Some(process.starttime) {
            return Use::None;
        }
        let Some(maps) = process::memory_map(pid) else { return Use::Unknown };
        let mapped = foreign_segment::of_memory_map(&maps, pid, pid);
        let mapped = mapped.filter(|mapped| mapped.inode == Some(inode));
        mapped.map_or(Use::None, |mapped| Use::Mapped(mapped.link()))
    }

    fn entry(self, process: ProcessId, path: PathBuf, foreign: Option<Arc<ForeignSegment>>) -> SegmentEntry {
        let alive = !matches!(self, Use::None);
        let mapping = if let Use::Mapped(link) = self { Some(link) } else { None };
        SegmentEntry { path, process, alive, foreign, mapping }
    }
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
    for running in process::list().into_iter().filter_map(mapped_segment::of_process) {
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
pub(crate) fn left_by_other_users(is_wanted: impl Fn(&ProcessId) -> bool) -> Vec<SegmentEntry> {
    let found = foreign_segment::of_other_users(is_wanted).into_iter();
    found
        .map(|(process, path, segment)| {
            Use::of(process, segment.inode()).entry(process, path, Some(Arc::new(segment)))
        })
        .collect()
}
