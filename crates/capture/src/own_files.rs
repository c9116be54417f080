//! Folders and files that nobody but the user can have put there.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::process;

/// Whether a folder is the user's alone to write to: names in any other may be anybody's.
pub fn is_own_folder(data: &Metadata) -> bool {
    data.is_dir() && data.uid() == process::own_uid() && data.mode() & 0o022 == 0
}

/// A new file that is to be renamed when it is whole, for the user alone and through no link.
pub fn create_temporary(path: &Path) -> io::Result<File> {
    // Left by an earlier process of this number that was killed.
    let _ = fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
