//! Directories and files that only the user can have created.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
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

/// Creates a file that grows while a program runs, mode 0600, in place of an existing one. A link
/// of that name is replaced and not followed; a device or a pipe is written to. The file is locked,
/// so that a second writer of the same name is refused.
pub(crate) fn create_output(path: &Path) -> io::Result<File> {
    if is_special(path) {
        return OpenOptions::new().write(true).open(path);
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    if let Ok(old) = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path) {
        lock(&old)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    lock(&file)?;
    Ok(file)
}

fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::Error::other("another recorder is writing to it")),
        // File systems without locks cannot refuse a second writer.
        _ => Ok(()),
    }
}

/// A device or a pipe (`/dev/null`, `/dev/stdout`): written to, never replaced by a file.
pub fn is_special(path: &Path) -> bool {
    let is_system = ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
    is_system && !path.starts_with("/dev/shm")
        || fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// Creates a file to be renamed when complete, mode 0600 and never through a link.
pub fn create_temporary(path: &Path) -> io::Result<File> {
    // Left by an earlier process with this pid that was killed.
    let _ = fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
