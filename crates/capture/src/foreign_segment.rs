//! Segments outside of this user's directories: of other users, in containers.
//!
//! What is opened is a file that the process has mapped for writing, or a file of a directory of
//! its user. The process could write to it itself, so writing to it gives the process nothing; its
//! owner and type are checked, and its content is read like that of any hostile segment. The file
//! stays open: it may be in a file system that ends with the process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use heapwise_format::paths::{DIRECTORIES, ProcessId};
use heapwise_profile::proc_maps::Mapping;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};

use crate::process::{self, Status};
use crate::process_files::{self, MappedFile};

/// The segment of its own that a process has mapped; `None` also while a forked child has only its
/// parent's.
pub(crate) fn mapped_by(pid: u32, inner_pid: u32) -> Option<MappedFile> {
    of_memory_map(&process::memory_map(pid)?, pid, inner_pid)
}

/// The same, of a memory map that was read.
pub(crate) fn of_memory_map(maps: &str, pid: u32, inner_pid: u32) -> Option<MappedFile> {
    let own = |line: &str| {
        let Mapping { start, end, permissions, file_offset: 0, inode, path } = Mapping::parse(line)? else {
            return None;
        };
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let named = ProcessId::from_file_name(path.rsplit('/').next()?)?;
        (permissions == "rw-s" && named.pid == inner_pid).then(|| MappedFile {
            pid,
            start,
            end,
            path: path.into(),
            inode: Some(inode),
        })
    };
    maps.lines().find_map(own)
}

/// An open segment of another user or another mount namespace.
#[derive(Debug)]
pub(crate) struct ForeignSegment {
    file: File,
    inode: u64,
    owner: u32,
    /// Where it can be removed.
    directory: Option<OwnedFd>,
    name: PathBuf,
}

impl ForeignSegment {
    /// Opens the segment that a process has mapped. Its owner is the user of the process, or this
    /// one: the process has changed its user since.
    pub(crate) fn mapped(mapped: &MappedFile, of: &Status) -> io::Result<Self> {
        let handle = mapped.handle()?;
        let allowed = [of.real_uid, of.uid, process::own_uid()];
        Self::checked(&handle, &allowed, mapped.directory().ok(), mapped.path.file_name())
    }

    fn checked(
        handle: &OwnedFd,
        owners: &[u32],
        directory: Option<OwnedFd>,
        name: Option<&std::ffi::OsStr>,
    ) -> io::Result<Self> {
        let status = process_files::status(handle)?;
        if !owners.contains(&status.st_uid) || status.st_mode & 0o077 != 0 {
            return Err(io::Error::other("it is not a file of that user's alone"));
        }
        let file = process_files::reopen(handle, OpenOptions::new().read(true).write(true))?;
        let (inode, owner) = (status.st_ino, status.st_uid);
        Ok(Self { file, inode, owner, directory, name: name.unwrap_or_default().into() })
    }

    /// Another opening of the file: locks belong to an opening.
    pub(crate) fn open(&self) -> io::Result<File> {
        process_files::reopen(&self.file, OpenOptions::new().read(true).write(true))
    }

    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// Removes its name, from a directory of its owner's alone.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let directory = self.directory.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let folder = rustix::fs::fstat(directory)?;
        let named = rustix::fs::statat(directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !is_private(&folder, self.owner) || named.st_ino != self.inode {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(rustix::fs::unlinkat(directory, &self.name, AtFlags::empty())?)
    }
}

fn is_private(folder: &Stat, owner: u32) -> bool {
    folder.st_uid == owner && folder.st_mode & 0o077 == 0
}

/// Segments of wanted processes in the usual directories of other users, for root.
pub(crate) fn of_other_users(
    is_wanted: impl Fn(&ProcessId) -> bool,
) -> Vec<(ProcessId, PathBuf, ForeignSegment)> {
    let own = process::own_uid();
    let mut found = Vec::new();
    for pattern in DIRECTORIES.iter().filter(|_| own == 0) {
        let Some((before, after)) = pattern.split_once("%u") else { continue };
        let Some((parent, stem)) = before.rsplit_once('/') else { continue };
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let user = name.to_str().and_then(|name| name.strip_prefix(stem)?.parse::<u32>().ok());
            if let Some(user) = user.filter(|user| *user != own) {
                let path = PathBuf::from(format!("{before}{user}{after}"));
                found.extend(of_directory(&path, user, &is_wanted).unwrap_or_default());
            }
        }
    }
    found
}

fn of_directory(
    path: &Path,
    user: u32,
    is_wanted: impl Fn(&ProcessId) -> bool,
) -> io::Result<Vec<(ProcessId, PathBuf, ForeignSegment)>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    if !is_private(&rustix::fs::fstat(&directory)?, user) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in Dir::read_from(&directory)?.flatten() {
        let Ok(name) = entry.file_name().to_str() else { continue };
        let Some(process) = ProcessId::from_file_name(name).filter(&is_wanted) else { continue };
        let handle = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(handle) = rustix::fs::openat(&directory, name, handle, Mode::empty()) else { continue };
        let folder = directory.try_clone().ok();
        if let Ok(segment) = ForeignSegment::checked(&handle, &[user], folder, Some(name.as_ref())) {
            found.push((process, path.join(name), segment));
        }
    }
    Ok(found)
}
