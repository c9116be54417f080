//! The segment that a running process has mapped.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use heapwise_format::paths::ProcessId;

use crate::foreign_segment::{self, ForeignSegment};
use crate::own_files::is_own_folder;
use crate::process::{self, Status};
use crate::segment_entry::SegmentEntry;

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
