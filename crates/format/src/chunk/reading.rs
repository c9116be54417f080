//! Reading a chunk while its thread may be writing it, and letting it go.

use super::{AT_PUBLISHED, AT_STATE, ChunkHeader, ChunkState, HEADER_BYTES};
use crate::segment::{SegmentSink, SegmentSource};

/// The readable part of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Header, with the thread and the number of bytes, all of which may be read now.
    pub header: ChunkHeader,
    /// Whether the chunk is full: once read, it may be [released](release_chunk).
    pub is_complete: bool,
}

/// Reads the header of the chunk at `offset` of the segment; `None` before its first publication.
pub fn look(segment: &impl SegmentSource, offset: u64) -> Option<Published> {
    // A chunk is empty while its sequence is 0; its other fields were stored before the sequence.
    let first = header(segment, offset).filter(|header| header.sequence != 0)?;
    // The length of a full chunk is final, but only in a read after the one that returned `Full`.
    let is_complete = first.state == ChunkState::Full;
    let header = header(segment, offset)?;
    Some(Published { header, is_complete })
}

fn header(segment: &impl SegmentSource, offset: u64) -> Option<ChunkHeader> {
    let mut bytes = [0; HEADER_BYTES];
    let got = segment.read_at(offset, &mut bytes);
    ChunkHeader::decode(bytes.get(..got)?)
}

/// Releases a chunk that was read to its end: clears `published`, then sets the state that lets any
/// thread claim it.
///
/// # Errors
/// When the segment cannot be written to.
pub fn release_chunk<S: SegmentSink>(segment: &S, offset: u64) -> Result<(), S::Error> {
    segment.write_at(offset + AT_PUBLISHED as u64, &0u64.to_le_bytes())?;
    segment.write_at(offset + AT_STATE as u64, &(ChunkState::Drained as u32).to_le_bytes())
}
