//! The head of a frame: what the payload is, how long, and whether it is whole.
//!
//! ```text
//!  0 u32 magic      4 u8 kind   5 u8 codec   6 u16 number (meaning: see FrameKind)
//!  8 u32 stored bytes          12 u32 bytes after unpacking
//! 16 u64 first                 24 u64 last        (meaning: see FrameKind)
//! 32 u32 count                 36 u32 thread      (events: of the first entry)
//! 40 u32 checksum of the stored payload           44 u32 checksum of bytes 0..44
//! ```

use super::checksum;
use crate::bytes::{u16_at, u32_at, u64_at};

/// Bytes of a frame header.
pub const FRAME_HEADER_BYTES: usize = 48;
/// Largest payload, stored or unpacked: bounds what a reader allocates for a hostile header.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;

/// Marks that have a number. Those beyond are ordered by their time only.
pub const MOST_MARKS: u64 = u16::MAX as u64;

const MAGIC: u32 = u32::from_le_bytes(*b"HWfr");

/// Contents of a frame, and the meaning of `first` and `last` in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Page 0 of the segment.
    Process = 1,
    /// Records of a section of the segment: `number` is its [`super::table_number`], `first` that
    /// of the first record, `count` how many.
    Table = 2,
    /// Counters of the segment; the last frame counts.
    Counters = 3,
    /// [`super::Site`]s: `first` is the number of the first, `count` how many.
    Sites = 4,
    /// [`super::Entry`]s: `first` and `last` are the milliseconds of the first and last, `number`
    /// the marks before the first (see [`FrameHeader::with_marks`]).
    Events = 5,
    /// [`super::TimelineRow`]s: `first` and `last` are the milliseconds of the first and last.
    Timeline = 6,
    /// [`super::SiteCount`]s: all entries before, summed up at millisecond `first`; `number` as for
    /// events.
    Checkpoint = 7,
    /// Names and lines, so that the file opens where the binaries are not.
    Symbols = 8,
    /// [`super::IndexRow`]s of all other frames.
    Index = 9,
    /// [`super::MarkRow`]s.
    Marks = 10,
    /// [`super::LedgerRow`]s: `first` and `last` are the milliseconds of the first and last.
    Ledger = 11,
    /// [`super::CallRow`]s: `first` and `last` are the milliseconds of the first and last.
    Calls = 12,
}

/// Compression of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    None = 0,
    /// Zstandard.
    Zstd = 1,
}

/// A frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Kind of the payload.
    pub kind: FrameKind,
    /// Its compression.
    pub codec: Codec,
    /// See [`FrameKind`].
    pub number: u16,
    /// Bytes in the file.
    pub stored_bytes: u32,
    /// Bytes after unpacking.
    pub raw_bytes: u32,
    /// See [`FrameKind`].
    pub first: u64,
    /// See [`FrameKind`].
    pub last: u64,
    /// Number of records or entries.
    pub count: u32,
    /// Thread of the first entry (events).
    pub thread: u32,
    /// Checksum of the stored payload.
    pub checksum: u32,
}

impl FrameHeader {
    /// A header for a payload that is not packed yet; [`FrameHeader::seal`] completes it.
    #[must_use]
    pub fn new(kind: FrameKind) -> Self {
        Self {
            kind,
            codec: Codec::None,
            number: 0,
            stored_bytes: 0,
            raw_bytes: 0,
            first: 0,
            last: 0,
            count: 0,
            thread: 0,
            checksum: 0,
        }
    }

    /// The header of entries behind so many marks, at most [`MOST_MARKS`].
    #[must_use]
    pub fn with_marks(self, marks: u64) -> Self {
        Self { number: marks.min(MOST_MARKS) as u16, ..self }
    }

    /// Marks before the first entry (events), or before the end of what is summed up (checkpoints).
    #[must_use]
    pub fn marks(&self) -> u64 {
        u64::from(self.number)
    }

    /// Completes the header for the bytes that go into the file.
    #[must_use]
    pub fn seal(mut self, codec: Codec, raw_bytes: usize, stored: &[u8]) -> Self {
        self.codec = codec;
        self.raw_bytes = raw_bytes as u32;
        self.stored_bytes = stored.len() as u32;
        self.checksum = checksum(stored);
        self
    }

    /// The bytes in the file.
    #[must_use]
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            if let Some(target) = bytes.get_mut(at..at + field.len()) {
                target.copy_from_slice(field);
            }
            at += field.len();
        };
        put(&MAGIC.to_le_bytes());
        put(&[self.kind as u8, self.codec as u8]);
        put(&self.number.to_le_bytes());
        put(&self.stored_bytes.to_le_bytes());
        put(&self.raw_bytes.to_le_bytes());
        put(&self.first.to_le_bytes());
        put(&self.last.to_le_bytes());
        put(&self.count.to_le_bytes());
        put(&self.thread.to_le_bytes());
        put(&self.checksum.to_le_bytes());
        let (head, sum) = bytes.split_at_mut(FRAME_HEADER_BYTES - 4);
        sum.copy_from_slice(&checksum(head).to_le_bytes());
        bytes
    }

    /// Reads a header; `None` when it is cut off, damaged, or of an unknown kind.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..FRAME_HEADER_BYTES - 4)?;
        if u32_at(bytes, 0)? != MAGIC || u32_at(bytes, FRAME_HEADER_BYTES - 4)? != checksum(head) {
            return None;
        }
        let header = Self {
            kind: FrameKind::from_byte(*bytes.get(4)?)?,
            codec: Codec::from_byte(*bytes.get(5)?)?,
            number: u16_at(bytes, 6)?,
            stored_bytes: u32_at(bytes, 8)?,
            raw_bytes: u32_at(bytes, 12)?,
            first: u64_at(bytes, 16)?,
            last: u64_at(bytes, 24)?,
            count: u32_at(bytes, 32)?,
            thread: u32_at(bytes, 36)?,
            checksum: u32_at(bytes, 40)?,
        };
        let largest = header.stored_bytes.max(header.raw_bytes) as usize;
        (largest <= MAX_PAYLOAD_BYTES).then_some(header)
    }
}

impl FrameKind {
    /// The kind of that number.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        use FrameKind::{
            Calls, Checkpoint, Counters, Events, Index, Ledger, Marks, Process, Sites, Symbols, Table,
            Timeline,
        };
        let all = [
            Process, Table, Counters, Sites, Events, Timeline, Checkpoint, Symbols, Index, Marks, Ledger,
            Calls,
        ];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

impl Codec {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Codec::None),
            1 => Some(Codec::Zstd),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_every_flipped_bit_is_noticed() {
        let header =
            FrameHeader { first: 1 << 40, last: 77, count: 3, ..FrameHeader::new(FrameKind::Events) };
        let bytes = header.seal(Codec::Zstd, 100, b"stored").encode();
        assert_eq!(FrameHeader::decode(&bytes), Some(header.seal(Codec::Zstd, 100, b"stored")));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(&bad), None, "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(FrameHeader::decode(&bytes[..cut]), None);
        }
    }
}
