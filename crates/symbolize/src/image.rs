//! The bytes of one binary, read or mapped.

use std::{
    fs::File,
    io::{self, Read},
    ops::Deref,
    path::{Path, PathBuf},
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
            let mut buffer = Vec::new();
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
