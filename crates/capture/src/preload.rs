//! The preload library: embedded in the executable; unpacked once per version into the user's
//! cache.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::process;
use crate::failure::{Failure, Outcome};
use crate::own_files;

/// libheapwise.so as built together with this executable. Not compressed: a file is compared with
/// it before each use.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe.so"));
/// Distinguishes versions of the library, in decimal digits.
const FINGERPRINT: &str = env!("HEAPWISE_PROBE_FINGERPRINT");

/// Environment variable that names a library to use instead of the embedded one.
pub(crate) const OVERRIDE: &str = "HEAPWISE_PROBE";

/// Path of a preload library that holds exactly the embedded bytes and that `LD_PRELOAD` can name.
pub fn path() -> Outcome<PathBuf> {
    if let Some(path) = std::env::var_os(OVERRIDE).map(PathBuf::from) {
        return path
            .canonicalize()
            .map_err(|error| Failure::file(&path, format!("named by {OVERRIDE}: {error}")));
    }
    let mut problems = Vec::new();
    for directory in directories() {
        match unpack(&directory) {
            Ok(path) => return Ok(path),
            Err(problem) => problems.push(format!("{}: {problem}", directory.display())),
        }
    }
    Err(Failure::new(format!("no place for the preload library ({})", problems.join("; "))))
}

/// A daemon that root starts may become another user and then run programs: they inherit
/// `LD_PRELOAD`, and the loader complains on their standard error when they cannot read what it
/// names.
const READABLE_BY_ALL: &str = "/var/cache/heapwise";

fn directories() -> Vec<PathBuf> {
    let uid = process::own_uid();
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let shared = (uid == 0 && named.is_none()).then(|| PathBuf::from(READABLE_BY_ALL));
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let own = named.or_else(home).map(|cache| cache.join("heapwise"));
    let mut list: Vec<PathBuf> = shared.into_iter().chain(own).collect();
    list.push(format!("/dev/shm/heapwise-{uid}").into());
    list.push(format!("/tmp/heapwise-{uid}").into());
    list
}

fn unpack(directory: &Path) -> Result<PathBuf, String> {
    let text = |error: std::io::Error| error.to_string();
    let name = directory.to_str().ok_or("its name is not UTF-8")?;
    if !directory.is_absolute() || name.contains([' ', ':', '$']) {
        // ld.so splits LD_PRELOAD on spaces and colons and expands `$`.
        return Err("LD_PRELOAD cannot name it".into());
    }
    let others = if directory == Path::new(READABLE_BY_ALL) { 0o055 } else { 0 };
    fs::DirBuilder::new().recursive(true).mode(0o700 | others).create(directory).map_err(text)?;
    let data = directory.symlink_metadata().map_err(text)?;
    if !own_files::is_own_folder(&data) {
        return Err("others may write there".into());
    }
    let path = directory.join(format!("libheapwise-{FINGERPRINT}.so"));
    if !is_whole(&path) {
        let temporary = directory.join(format!(".libheapwise-{}.tmp", std::process::id()));
        let mut file = own_files::create_temporary(&temporary).map_err(text)?;
        file.write_all(LIBRARY).map_err(text)?;
        file.set_permissions(fs::Permissions::from_mode(0o500 | others)).map_err(text)?;
        fs::rename(&temporary, &path).map_err(text)?;
    }
    if is_noexec(directory) { Err("it is mounted noexec".into()) } else { Ok(path) }
}

/// Whether a file is ours and holds the library: a crash may have left part of it.
fn is_whole(path: &Path) -> bool {
    is_ours(path) && holds_library(path).unwrap_or(false)
}

/// Compares a file with the library.
fn holds_library(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let (mut piece, mut rest) = ([0; 32 << 10], LIBRARY);
    loop {
        let read = file.read(&mut piece)?;
        match rest.strip_prefix(&piece[..read]) {
            Some(behind) if read > 0 => rest = behind,
            Some(_) => return Ok(rest.is_empty()),
            None => return Ok(false),
        }
    }
}

fn is_ours(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|data| data.is_file() && data.uid() == process::own_uid() && data.mode() & 0o022 == 0)
}

fn is_noexec(directory: &Path) -> bool {
    rustix::fs::statvfs(directory)
        .is_ok_and(|info| info.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}
