//! Directories and files that only the user can have created.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::process;

/// Whether only the user can write to a directory: names in any other may be someone else's.
pub fn is_own_folder(data: &Metadata) -> bool {
    data.is_dir() && data.uid() == process::own_uid() && data.mode() & 0o022 == 0
}

/// Reads a file of the user's, never through a link.
pub fn read(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let is_own = file.metadata().is_ok_and(|data| data.is_file() && data.uid() == process::own_uid());
    let mut bytes = Vec::new();
    (is_own && file.read_to_end(&mut bytes).is_ok()).then_some(bytes)
}

/// Creates a file to be renamed when complete, mode 0600 and never through a link.
pub fn create_temporary(path: &Path) -> io::Result<File> {
    // Left by an earlier process with this pid that was killed.
    let _ = fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
