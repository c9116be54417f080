//! A chunk of the log: a record of the segment's `Chunks` section that one thread fills with
//! [events](crate::event) and the drainer reads.
//!
//! ```text
//!  0  u32  state       FREE → OWNED (by the thread) → FULL (by the thread)
//!                      → DRAINED (by the drainer) → OWNED …
//!  4  u32  thread      record number in the threads section (threads of one name may share one,
//!                      one after the other)
//!  8  u64  published   sequence << 32 | bytes of events that are whole
//! 16  u32  stream      number of the thread's log in this process, from 1
//! 20  u32  last        1 when the stream ends with this chunk
//! 24       (unused, zero)
//! 64       events
//! ```
//!
//! The thread stores `published` after everything it covers, so a reader never sees a length
//! without its bytes; a killed program leaves a decodable prefix. `sequence` counts the chunks of a
//! stream from 1. The drainer sets `published` to zero before it releases a chunk, so that a new
//! owner's chunk is empty until the owner publishes.

mod reading;

pub use reading::{Published, look, release_chunk};

use crate::bytes::{u32_at, u64_at};
use crate::segment::CHUNK_BYTES;

/// Bytes of a chunk before its events.
pub const HEADER_BYTES: usize = 64;
/// Room for events in a chunk.
pub const EVENT_BYTES: usize = CHUNK_BYTES as usize - HEADER_BYTES;
/// Byte offset of the state.
pub const AT_STATE: usize = 0;
/// Byte offset of the thread.
pub const AT_THREAD: usize = 4;
/// Byte offset of the published word.
pub const AT_PUBLISHED: usize = 8;
/// Byte offset of the stream.
pub const AT_STREAM: usize = 16;
/// Byte offset of the mark of a stream's last chunk.
pub const AT_LAST: usize = 20;

/// State of a chunk, which determines its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ChunkState {
    /// Never used.
    Free = 0,
    /// A thread writes to it; the published part may be read.
    Owned = 1,
    /// Its thread has left it; what is published is all.
    Full = 2,
    /// Read to its end; a thread may take it.
    Drained = 3,
}

impl ChunkState {
    /// Anything unknown is [`ChunkState::Free`]: nothing to read.
    #[must_use]
    pub fn from_word(word: u32) -> Self {
        match word {
            1 => ChunkState::Owned,
            2 => ChunkState::Full,
            3 => ChunkState::Drained,
            _ => ChunkState::Free,
        }
    }
}

/// The head of a chunk, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// State of the chunk.
    pub state: ChunkState,
    /// Record number of the thread.
    pub thread: u32,
    /// Number of the thread's log.
    pub stream: u32,
    /// Number of the chunk in its stream, from 1; 0 before the first publication.
    pub sequence: u32,
    /// Whether the stream ends with this chunk.
    pub is_last: bool,
    /// Bytes of whole events, at most [`EVENT_BYTES`].
    pub len: usize,
}

impl ChunkHeader {
    /// Reads and clamps a header.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let published = u64_at(bytes, AT_PUBLISHED)?;
        Some(Self {
            state: ChunkState::from_word(u32_at(bytes, AT_STATE)?),
            thread: u32_at(bytes, AT_THREAD)?,
            stream: u32_at(bytes, AT_STREAM)?,
            is_last: u32_at(bytes, AT_LAST)? == 1,
            sequence: (published >> 32) as u32,
            len: (published as u32 as usize).min(EVENT_BYTES),
        })
    }
}

/// The published word.
#[inline(always)]
#[must_use]
pub fn published(sequence: u32, len: usize) -> u64 {
    u64::from(sequence) << 32 | len as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_clamped() {
        let mut bytes = [0; HEADER_BYTES];
        bytes[AT_STATE] = 2;
        bytes[AT_THREAD] = 9;
        bytes[AT_STREAM] = 4;
        bytes[AT_LAST] = 1;
        bytes[AT_PUBLISHED..AT_PUBLISHED + 8].copy_from_slice(&published(7, usize::MAX >> 32).to_le_bytes());
        let (state, len) = (ChunkState::Full, EVENT_BYTES);
        let expected = ChunkHeader { state, thread: 9, stream: 4, sequence: 7, is_last: true, len };
        assert_eq!(ChunkHeader::decode(&bytes), Some(expected));
        assert_eq!(ChunkHeader::decode(&bytes[..AT_LAST]), None);
    }
}
