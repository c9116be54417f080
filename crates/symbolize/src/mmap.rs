//! The one place that maps a file: large binaries are looked at, not read.
#![allow(unsafe_code)]

use std::{fs::File, io};

use memmap2::Mmap;

/// Maps a whole file for reading.
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is private and read-only, and every reader of it checks bounds and
    // tolerates any content, so a file changed meanwhile gives wrong names, not undefined control
    // flow. A file replaced by rename keeps its inode, hence its pages; only one that is truncated
    // in place raises SIGBUS, a risk that overwriting an installed binary in place also has for the
    // programs running from it; only binaries of more than `image::MAP_FROM_BYTES` are mapped.
    unsafe { Mmap::map(file) }
}
