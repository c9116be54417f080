//! Directories and files that only the user can have created.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::process;

/// Whether only the user can write to a directory: names in any other may be someone else's.
pub fn is_own_folder(data: &Metadata) -> bool {
    data.is_dir() && data.uid() == process::own_uid() && data.mode() & 0o022 == 0
}

/// Creates a file to be renamed when complete, mode 0600 and never through a link.
pub fn create_temporary(path: &Path) -> io::Result<File> {
    // Left by an earlier process with this pid that was killed.
    let _ = fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
