//! Files as another process sees them: in its root directory, its mount namespace, its memory.
//!
//! The process may belong to another user, who plants links, pipes and devices. A file is opened by
//! a handle first (`O_PATH`, which has no effect on any kind of file), checked, and only then for
//! reading or writing. Links are never followed out of the root of the process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};

const HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A part of a file that a process has mapped.
#[derive(Debug, Clone)]
pub(crate) struct MappedFile {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// As the kernel prints it for this process.
    pub(crate) path: PathBuf,
    /// Number of the file in its file system; `None` when it is not known.
    pub(crate) inode: Option<u64>,
}

impl MappedFile {
    /// The kernel's link to the file itself, whatever its name refers to now.
    pub(crate) fn link(&self) -> PathBuf {
        format!("/proc/{}/map_files/{:x}-{:x}", self.pid, self.start, self.end).into()
    }

    /// A handle of the file: by the kernel's link, which needs a privilege, else by its name.
    pub(crate) fn handle(&self) -> io::Result<OwnedFd> {
        if let Ok(handle) = rustix::fs::open(self.link(), HANDLE, Mode::empty()) {
            return Ok(handle);
        }
        // The kernel prints names in a changed root as this process sees them.
        let places = [format!("/proc/{}/root", self.pid), "/".to_owned()];
        let mut refusal = io::ErrorKind::NotFound.into();
        for root in places {
            match in_root(Path::new(&root), &self.path, OFlags::NOFOLLOW) {
                Ok(handle) if self.is(&rustix::fs::fstat(&handle)?) => return Ok(handle),
                Ok(_) => {}
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn is(&self, found: &Stat) -> bool {
        self.inode.is_none_or(|inode| found.st_ino == inode)
    }

    /// The directory that the file is in, by its name in the root of the process.
    pub(crate) fn directory(&self) -> io::Result<OwnedFd> {
        let parent = self.path.parent().ok_or(io::ErrorKind::NotFound)?;
        in_root(Path::new(&format!("/proc/{}/root", self.pid)), parent, OFlags::DIRECTORY)
    }
}

/// A handle of what `path` names in the root directory `root`; no link leads out of it.
fn in_root(root: &Path, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let root = rustix::fs::open(root, HANDLE | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(root, path, HANDLE | flags, Mode::empty(), resolve)?)
}

/// The file that a handle refers to, if it is a regular one.
pub(crate) fn status(handle: impl AsFd) -> io::Result<Stat> {
    let status = rustix::fs::fstat(handle)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Ok(status),
        _ => Err(io::Error::other("not a regular file")),
    }
}

/// Opens what a handle refers to.
pub(crate) fn reopen(handle: impl AsFd, options: &OpenOptions) -> io::Result<File> {
    options.open(path_of(handle.as_fd().as_raw_fd()))
}

fn path_of(descriptor: i32) -> PathBuf {
    format!("/proc/self/fd/{descriptor}").into()
}

/// The directory of a file that a process has mapped, in the root of the process.
pub(crate) fn folder_of(pid: u32, file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or(file);
    Path::new(&format!("/proc/{pid}/root")).join(folder.strip_prefix("/").unwrap_or(folder))
}

/// A regular file of another process that is open for reading. Its path is valid while this lives.
#[derive(Debug)]
pub(crate) struct Readable {
    _file: File,
    pub(crate) path: PathBuf,
}

impl Readable {
    /// Opens a file that a process has mapped.
    pub(crate) fn of(mapped: &MappedFile) -> io::Result<Self> {
        let handle = mapped.handle()?;
        status(&handle)?;
        let file = reopen(&handle, OpenOptions::new().read(true))?;
        Ok(Self { path: path_of(file.as_raw_fd()), _file: file })
    }
}
