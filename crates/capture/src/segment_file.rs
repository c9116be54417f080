//! An open segment file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use heapwise_format::paths::ProcessId;
use heapwise_format::segment::{HeaderError, SegmentSink, SegmentSource, VERSION};
use heapwise_profile::snapshot::Snapshot;

use super::process;
use crate::failure::{Failure, Outcome};
use crate::positioned_read;

/// An open segment. Reads are positioned reads of the file, never a mapping.
#[derive(Debug)]
pub struct SegmentFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    /// Its process, as this process sees it. The header has the number in the process's own pid
    /// namespace.
    pub(crate) process: Option<ProcessId>,
    /// Whether the file is not in a directory of this user's.
    pub(crate) is_foreign: bool,
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
        Ok(Self { file, path: path.to_owned(), process: None, is_foreign: false })
    }

    /// The file itself, for locks and positioned writes.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The same segment, for another thread.
    pub fn try_clone(&self) -> io::Result<Self> {
        let Self { file, path, process, is_foreign } = self;
        Ok(Self { file: file.try_clone()?, path: path.clone(), process: *process, is_foreign: *is_foreign })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the name now refers to another file: the program called `exec`.
    pub(crate) fn is_renamed(&self) -> bool {
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

/// The process of a segment, as this process sees it.
pub(crate) fn process_of(snapshot: &Snapshot<'_, SegmentFile>) -> ProcessId {
    snapshot.source().process.unwrap_or(snapshot.header.process)
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
