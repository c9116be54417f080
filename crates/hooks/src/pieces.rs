//! Parts of a file that are read in pieces of a fixed size: sections may have any size.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that are read at once: they stay in the processor's cache.
pub(crate) const PIECE_BYTES: usize = 240 << 10;

/// Calls `look` with the pieces of a part of a file, given as offset and size, and with the offset
/// of each in the part, until it returns false. Each piece but the first begins with the last
/// `overlap` bytes of the one before.
pub(crate) fn each(
    file: &File,
    (offset, size): (u64, u64),
    overlap: usize,
    mut look: impl FnMut(&[u8], u64) -> bool,
) {
    let mut piece = vec![0; usize::try_from(size).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)];
    let mut done = 0;
    while done < size {
        let wanted = usize::try_from(size - done).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let read = file.read_at(&mut piece[..wanted], offset.saturating_add(done)).unwrap_or(0);
        if !look(&piece[..read], done) || read <= overlap {
            return;
        }
        done += (read - overlap) as u64;
    }
}
