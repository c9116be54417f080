//! A segment that was found: its process, its file, and what became of both.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use heapwise_format::paths::ProcessId;

use crate::failure::{Failure, Outcome};
use crate::foreign_segment::{self, ForeignSegment};
use crate::process::{self, Status};
use crate::segment_file::SegmentFile;

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
    pub(crate) foreign: Option<Arc<ForeignSegment>>,
    /// The kernel's link to the mapped file, where the process had it mapped when it was found.
    pub(crate) mapping: Option<PathBuf>,
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

    /// When the segment was created, in nanoseconds; 0 while it has no header. By the wall clock: a
    /// program may enter a time namespace, which has another monotonic clock, between two segments.
    pub(crate) fn created_ns(&self) -> u64 {
        let header = self.open().and_then(|segment| Ok(segment.snapshot()?.header.start_realtime_ns));
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
        let is_mapped = match &self.mapping {
            Some(link) => link.symlink_metadata().is_ok(),
            None => self.is_mapped(segment),
        };
        // The memory of a process that exits is gone before the process is.
        !is_mapped
            && process::memory_map(self.process.pid).is_some_and(|maps| !maps.is_empty())
            && self.is_alive()
    }

    /// Whether the process has this very file mapped.
    fn is_mapped(&self, segment: &SegmentFile) -> bool {
        let pid = self.process.pid;
        let inode = segment.file().metadata().ok().map(|data| data.ino());
        let mapped = Status::of(pid).and_then(|status| foreign_segment::mapped_by(pid, status.inner_pid));
        mapped.is_some_and(|mapped| mapped.inode == inode)
    }
}

/// Oldest process first.
pub(crate) fn sort(found: &mut [SegmentEntry]) {
    found.sort_by_key(|segment| (segment.process.starttime, segment.process.pid));
}
