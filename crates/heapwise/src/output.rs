//! Output: complete files or nothing, never over an existing one without `-f`.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// Whether a file that exists may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// An existing file is an error.
    Refuse,
    /// An existing file is replaced.
    Allow,
}

/// Writes a file through a temporary name and a rename, so that a full disk or a kill leaves either
/// the old file or the new one.
pub(crate) fn write_file(
    path: &Path,
    overwrite: Overwrite,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Outcome {
    let failed = |error: io::Error| {
        Failure::file(path, format!("cannot write: {error}; choose another place with -o"))
    };
    if is_special(path) {
        return write_through(path, write).map_err(failed);
    }
    refuse_existing(path, overwrite)?;
    let temporary = temporary_name(path);
    let result = write_temporary(&temporary, write).and_then(|()| fs::rename(&temporary, path));
    result.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

/// A device or a pipe (`/dev/null`, `/dev/stdout`): written to, never replaced by a file.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir())
}

fn write_through(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
    write(&mut out)?;
    out.flush()
}

/// Fails early when `path` exists and must not be replaced.
pub(crate) fn refuse_existing(path: &Path, overwrite: Overwrite) -> Outcome {
    if overwrite == Overwrite::Refuse && path.symlink_metadata().is_ok() && !is_special(path) {
        return Err(Failure::file(path, "exists already; use -f to replace it or -o for another name"));
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
                Err(Failure::Input(format!("cannot write to stdout: {error}")))
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

fn write_temporary(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(path)?);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()
}
