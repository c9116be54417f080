//! A chunk of the log: a record of the segment's `Chunks` section that one thread fills with
//! [events](crate::event) and the drainer reads.
//!
//! ```text
//!  0  u32  state       FREE → OWNED (by the thread) → FULL (by the thread) → DRAINED (by the drainer) → OWNED …
//!  4  u32  thread      record number in the threads section
//!  8  u64  published   sequence << 32 | bytes of events that are whole
//! 16       (unused, zero)
//! 64       events
//! ```
//!
//! The thread stores `published` after the bytes it covers, one word, so a reader never sees a length
//! without its bytes or the length of another use of the chunk; a killed program leaves a decodable prefix.
//! `sequence` counts uses of chunks in the process: it orders the chunks of a thread and tells the
//! drainer that a chunk was taken anew.

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

/// Whose turn it is.
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
    /// Whose turn it is.
    pub state: ChunkState,
    /// Record number of the thread.
    pub thread: u32,
    /// Which use of a chunk in the process this is.
    pub sequence: u32,
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
        bytes[AT_PUBLISHED..AT_PUBLISHED + 8].copy_from_slice(&published(7, usize::MAX >> 32).to_le_bytes());
        let expected = ChunkHeader { state: ChunkState::Full, thread: 9, sequence: 7, len: EVENT_BYTES };
        assert_eq!(ChunkHeader::decode(&bytes), Some(expected));
        assert_eq!(ChunkHeader::decode(&bytes[..15]), None);
    }
}
