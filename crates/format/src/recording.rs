//! The recording: a file of every event of a program's heap, with time, thread and stack.
//!
//! ```text
//! preamble   16 bytes: magic, version
//! frame      header (48 bytes, checksummed) + payload (checksummed, perhaps compressed)
//! frame …
//! index      a frame that lists all others               (missing when the recorder was killed)
//! trailer    16 bytes: where the index is                (then the frames are found by walking)
//! ```
//!
//! Tables that describe the program (modules, stack nodes, threads, strings) are carried as the
//! segment's own records, in [`FrameKind::Table`] frames, so there is one decoder for a segment and
//! a recording. Events are stored *paired*: a free names site, size and age of its block, so a
//! reader needs neither addresses nor an index of live blocks, every events frame can be read on
//! its own, and memory is bounded by the number of sites, which are stacks and threads.
//!
//! Recordings of version 3 are read, too: [`version3`] has what was different.
//!
//! The caller compresses: a header holds the codec of its payload.

mod age;
mod call_row;
mod checkpoint;
mod checksum;
mod entry;
mod frame;
mod index;
mod ledger_row;
mod mark;
mod site;
mod tables;
mod timeline_row;
pub mod version3;

pub use age::Age;
pub use call_row::CallRow;
pub use checkpoint::SiteCount;
pub use checksum::checksum;
pub use entry::{AllocKind, Columns, Entries, Entry, EntryState, SIZE_SLOTS, SiteBlock};
pub use frame::{Codec, FRAME_HEADER_BYTES, FrameHeader, FrameKind, MAX_PAYLOAD_BYTES, MOST_MARKS};
pub use index::{INDEX_ROW_BYTES, IndexRow, TRAILER_BYTES, Trailer};
pub use ledger_row::LedgerRow;
pub use mark::MarkRow;
pub use site::Site;
pub use tables::{decode_counters, encode_counters, table_kind, table_number};
pub use timeline_row::{TIMELINE_ROW_MS, TimelineRow, TimelineState};

use crate::bytes::{u32_at, u64_at};

/// First eight bytes of a recording.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HWISEREC");
/// Version of everything in the file.
pub const VERSION: u32 = 4;
/// Bytes before the first frame.
pub const PREAMBLE_BYTES: usize = 16;

/// Why a file cannot be read as a recording at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreambleError {
    /// Shorter than a preamble.
    Short,
    /// Not a recording.
    Magic,
    /// A recording of another version.
    Version(u32),
}

/// The first bytes of a recording.
#[must_use]
pub fn preamble() -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    let (magic, rest) = bytes.split_at_mut(8);
    magic.copy_from_slice(&MAGIC.to_le_bytes());
    for (target, byte) in rest.iter_mut().zip(VERSION.to_le_bytes()) {
        *target = byte;
    }
    bytes
}

/// Checks the first bytes of a recording; its version, which is [`VERSION`] or
/// [`version3::VERSION`].
///
/// # Errors
/// When they are not those of a recording of a version that can be read.
pub fn check_preamble(bytes: &[u8]) -> Result<u32, PreambleError> {
    if bytes.len() < PREAMBLE_BYTES {
        return Err(PreambleError::Short);
    }
    if u64_at(bytes, 0) != Some(MAGIC) {
        return Err(PreambleError::Magic);
    }
    match u32_at(bytes, 8) {
        Some(version @ (VERSION | version3::VERSION)) => Ok(version),
        other => Err(PreambleError::Version(other.unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_refused() {
        assert_eq!(check_preamble(&preamble()), Ok(VERSION));
        assert_eq!(check_preamble(&preamble()[..15]), Err(PreambleError::Short));
        assert_eq!(check_preamble(&[b'x'; 16]), Err(PreambleError::Magic));
        let mut other = preamble();
        other[8] = 9;
        assert_eq!(check_preamble(&other), Err(PreambleError::Version(9)));
    }
}
