//! Output: complete files or nothing, never over an existing one without `-f`.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use heapwise_capture::own_files::is_special;

use crate::failure::{Failure, Outcome};
use crate::{file_error, input_error};

/// Whether a file that exists may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// An existing file is an error.
    Refuse,
    /// An existing file is replaced.
    Allow,
}

/// Access to a new file, within the limits of the umask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Its owner only: what a program did is private.
    Owner = 0o600,
    Everybody = 0o666,
}

/// Writes a file through a temporary name and a rename, so that a full disk or a kill leaves either
/// the old file or the new one.
pub(crate) fn write_file(
    path: &Path,
    overwrite: Overwrite,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Outcome {
    write_with(path, overwrite, Access::Everybody, write)
}

/// As [`write_file`], for a profile, which only its owner may read.
pub(crate) fn write_private_file(
    path: &Path,
    overwrite: Overwrite,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Outcome {
    write_with(path, overwrite, Access::Owner, write)
}

fn write_with(
    path: &Path,
    overwrite: Overwrite,
    access: Access,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Outcome {
    let failed = |error: io::Error| cannot_write(path, &error);
    if is_special(path) {
        return write_through(path, write).map_err(failed);
    }
    refuse_existing(path, overwrite)?;
    let temporary = temporary_name(path);
    let result = write_temporary(&temporary, access, write).and_then(|()| fs::rename(&temporary, path));
    result.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    file_error!(path, "cannot write: {}; choose another place with -o", error)
}

/// Fails unless a file can be written to `path` later: before a program runs for hours.
pub(crate) fn refuse_unwritable(path: &Path, overwrite: Overwrite) -> Outcome {
    if is_special(path) {
        // Opening a pipe would wait for its reader.
        let opened = if is_pipe(path) { Ok(()) } else { OpenOptions::new().write(true).open(path).map(drop) };
        return opened.map_err(|error| cannot_write(path, &error));
    }
    refuse_existing(path, overwrite)?;
    let temporary = temporary_name(path);
    let created = write_temporary(&temporary, Access::Owner, |_| Ok(()));
    created.and_then(|()| fs::remove_file(&temporary)).map_err(|error| cannot_write(path, &error))
}

fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.file_type().is_fifo())
}

fn write_through(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
    write(&mut out)?;
    out.flush()
}

/// Fails early when `path` exists and must not be replaced.
pub(crate) fn refuse_existing(path: &Path, overwrite: Overwrite) -> Outcome {
    if path.is_dir() {
        return Err(file_error!(path, "is a directory; name a file in it"));
    }
    if overwrite == Overwrite::Refuse && path.symlink_metadata().is_ok() && !is_special(path) {
        return Err(file_error!(path, "exists already; use -f to replace it or -o for another name"));
    }
    Ok(())
}

/// Writes to `path`, or to stdout when there is none. A closed pipe (`| head`) is not an error.
pub(crate) fn write_result(
    path: Option<&Path>,
    overwrite: Overwrite,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Outcome {
    let Some(path) = path else {
        let mut out = BufWriter::new(io::stdout().lock());
        return match write(&mut out).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(input_error!("cannot write to stdout: {}", error))
            }
            _ => Ok(()),
        };
    };
    write_file(path, overwrite, write)
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn write_temporary(
    path: &Path,
    access: Access,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(access as u32).open(path)?;
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    if fails_early(&file) { Ok(()) } else { file.sync_data() }
}

/// Whether the file system reports a full disk when bytes are written, as local ones do. Others
/// report it when the file is synced, which takes 5 to 300 ms on a disk.
fn fails_early(file: &File) -> bool {
    /// ext4, XFS, Btrfs, tmpfs, overlayfs, F2FS.
    const LOCAL: [u64; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0xf2f5_2010];
    rustix::fs::fstatfs(file).is_ok_and(|system| LOCAL.contains(&(system.f_type as u64)))
}
