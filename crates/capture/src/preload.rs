//! The preload library: embedded in the executable, compressed; unpacked once per version into the
//! user's cache.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::process;
use crate::failure::{Failure, Outcome};
use crate::own_files;

/// libheapwise.so as built together with this executable, compressed: 0.2 instead of 0.5 MB.
static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe.zlib"));
/// [`fingerprint`] of the library, in decimal digits.
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

fn decompressed() -> Vec<u8> {
    let mut library = Vec::new();
    flate2::read::ZlibDecoder::new(COMPRESSED)
        .read_to_end(&mut library)
        .expect("the build script compressed it");
    library
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
        file.write_all(&decompressed()).map_err(text)?;
        file.set_permissions(fs::Permissions::from_mode(0o500 | others)).map_err(text)?;
        fs::rename(&temporary, &path).map_err(text)?;
    }
    if is_noexec(directory) { Err("it is mounted noexec".into()) } else { Ok(path) }
}

/// Whether a file is ours and holds the library: a crash may have left part of it.
fn is_whole(path: &Path) -> bool {
    let is_library = |bytes: Vec<u8>| fingerprint(&bytes).to_string() == FINGERPRINT;
    is_ours(path) && fs::read(path).is_ok_and(is_library)
}

fn is_ours(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|data| data.is_file() && data.uid() == process::own_uid() && data.mode() & 0o022 == 0)
}

fn is_noexec(directory: &Path) -> bool {
    rustix::fs::statvfs(directory)
        .is_ok_and(|info| info.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

/// Distinguishes versions of the library. The build script has the same function.
fn fingerprint(library: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    hasher.finish()
}
