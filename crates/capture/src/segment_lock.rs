//! Keeps the segments of ended processes until they are read: other commands remove all but the
//! last of them ([`crate::stale_segments`]) unless a process holds the shared lock of the
//! directory.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;

use super::segments;
use crate::own_files::is_own_folder;

/// Holds shared locks so that no other command removes segments. The kernel releases them with the
/// process.
#[derive(Debug)]
pub struct SegmentLock {
    _locked: Vec<File>,
}

impl SegmentLock {
    /// Locks every directory that may hold segments of this user.
    pub fn take() -> Self {
        let directories = segments::directories();
        // The probe creates it too, but a missing directory cannot be locked.
        if let Some(usual) = directories.first() {
            let _ = DirBuilder::new().mode(0o700).create(usual);
        }
        let locked = directories
            .iter()
            .filter(|directory| directory.symlink_metadata().is_ok_and(|data| is_own_folder(&data)))
            .filter_map(|directory| File::open(directory).ok())
            .filter(|directory| directory.lock_shared().is_ok())
            .collect();
        Self { _locked: locked }
    }
}
