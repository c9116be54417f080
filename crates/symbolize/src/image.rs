//! The bytes of one binary, read or mapped.

use std::{
    fs::{File, Metadata},
    io::{self, Read},
    ops::Deref,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use memmap2::Mmap;

use crate::mmap;

/// Files from this size on are mapped. Reading 4 MiB takes about a millisecond, and a file that
/// was read cannot change under us.
pub(crate) const MAP_FROM_BYTES: u64 = 4 << 20;

/// A binary (or debug file) and where it came from.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    bytes: Bytes,
}

/// Distinguishes a file from another one with the same build-id, without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ImageIdentity {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    /// Time of the last change, nanoseconds since the epoch.
    pub(crate) modified_ns: u64,
}

impl ImageIdentity {
    /// The identity of a regular file.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let data = path.metadata().ok().filter(Metadata::is_file)?;
        let modified = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified_ns = modified.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Some(Self { path: path.to_owned(), size: data.len(), modified_ns })
    }

    /// Whether a recorded path has the same last component.
    pub(crate) fn is_named_as(&self, recorded: &str) -> bool {
        let recorded = recorded.strip_suffix(" (deleted)").unwrap_or(recorded);
        self.path.file_name() == Path::new(recorded).file_name()
    }
}

#[derive(Debug)]
enum Bytes {
    Read(Vec<u8>),
    Mapped(Mmap),
}

impl Image {
    /// Opens a regular file; a recorded path may name a device or a pipe, which would block.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let bytes = if size >= MAP_FROM_BYTES {
            Bytes::Mapped(mmap::map(&file)?)
        } else {
            let mut buffer = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
            file.by_ref().take(MAP_FROM_BYTES).read_to_end(&mut buffer)?;
            Bytes::Read(buffer)
        };
        Ok(Self { path: path.to_owned(), bytes })
    }

    /// A binary without a file of its own: the vDSO, or one packed into another's section.
    pub(crate) fn from_bytes(path: PathBuf, bytes: Vec<u8>) -> Self {
        Self { path, bytes: Bytes::Read(bytes) }
    }
}

impl Deref for Image {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Read(bytes) => bytes,
            Bytes::Mapped(map) => map,
        }
    }
}
