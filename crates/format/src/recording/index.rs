//! The index of frames at the end of a recording, and the trailer that finds it.

use super::{FRAME_HEADER_BYTES, FrameHeader, checksum};
use crate::bytes::{u32_at, u64_at};

/// Bytes of an [`IndexRow`].
pub const INDEX_ROW_BYTES: usize = 8 + FRAME_HEADER_BYTES;
/// Bytes of the [`Trailer`].
pub const TRAILER_BYTES: usize = 16;

const MAGIC: u32 = u32::from_le_bytes(*b"HWix");

/// Where a frame is, with a copy of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexRow {
    /// Byte offset of the frame's header in the file.
    pub offset: u64,
    /// The header.
    pub header: FrameHeader,
}

impl IndexRow {
    /// The bytes in the index.
    #[must_use]
    pub fn encode(&self) -> [u8; INDEX_ROW_BYTES] {
        let mut bytes = [0; INDEX_ROW_BYTES];
        let (offset, header) = bytes.split_at_mut(8);
        offset.copy_from_slice(&self.offset.to_le_bytes());
        header.copy_from_slice(&self.header.encode());
        bytes
    }

    /// Reads a row.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { offset: u64_at(bytes, 0)?, header: FrameHeader::decode(bytes.get(8..)?)? })
    }
}

/// The last bytes of a recording that was ended properly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// Byte offset of the index frame.
    pub index_offset: u64,
}

impl Trailer {
    /// The bytes in the file.
    #[must_use]
    pub fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        let (offset, rest) = bytes.split_at_mut(8);
        offset.copy_from_slice(&self.index_offset.to_le_bytes());
        let (sum, magic) = rest.split_at_mut(4);
        sum.copy_from_slice(&checksum(&self.index_offset.to_le_bytes()).to_le_bytes());
        magic.copy_from_slice(&MAGIC.to_le_bytes());
        bytes
    }

    /// Reads a trailer; `None` when these bytes are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let offset = bytes.get(..8)?;
        let whole = u32_at(bytes, 12)? == MAGIC && u32_at(bytes, 8)? == checksum(offset);
        if whole { Some(Self { index_offset: u64_at(bytes, 0)? }) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FrameKind;
    use super::*;

    #[test]
    fn round_trip() {
        let row = IndexRow { offset: 123_456, header: FrameHeader::new(FrameKind::Timeline) };
        assert_eq!(IndexRow::decode(&row.encode()), Some(row));
        let trailer = Trailer { index_offset: 99 };
        assert_eq!(Trailer::decode(&trailer.encode()), Some(trailer));
        assert_eq!(Trailer::decode(&[0; TRAILER_BYTES]), None);
    }
}
