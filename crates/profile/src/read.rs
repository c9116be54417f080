//! Readers: bytes of any known format in, a [`Profile`] out.
//!
//! The format is detected by the content, never by a name. No input makes a reader panic, recurse
//! or hold more than a small multiple of the (decompressed) input. Unreadable input is an error of
//! one line that names the place.

mod annotations;
mod completeness;
mod dhat;
mod error;
mod folded;
mod gperftools;
mod heap_text;
mod heaptrack;
mod jemalloc;
mod limit;
mod lines;
mod maps;
mod pprof;
mod skynet;
mod symbolized;
mod unbias;
mod unpack;

use std::io::BufReader;

pub use error::{Position, ReadError};
pub use limit::Limit;
pub use unpack::HELD_RATIO;
use unpack::{Packing, Unpacked};

use crate::{Profile, compact};

/// Bytes from the start that are enough to detect a format.
const HEAD_BYTES: u64 = 4096;

/// Reads a profile of any known format, compressed or not, within the default limit.
pub fn read(bytes: &[u8]) -> Result<Profile, ReadError> {
    read_limited(bytes, Limit::default())
}

/// Reads a profile of any known format, compressed or not.
pub fn read_limited(bytes: &[u8], limit: Limit) -> Result<Profile, ReadError> {
    let Some(packing) = Packing::of(bytes) else {
        return read_plain(bytes, limit);
    };
    let head = Unpacked::streamed(bytes, packing).head(HEAD_BYTES)?;
    if heaptrack::is_heaptrack(&head) {
        return heaptrack::read(BufReader::new(Unpacked::streamed(bytes, packing)), limit);
    }
    read_plain(&Unpacked::held(bytes, packing, limit.held_bytes(&head)).all()?, limit)
}

fn read_plain(bytes: &[u8], limit: Limit) -> Result<Profile, ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::Empty);
    }
    if let Some(version) = compact::Version::of(bytes) {
        return compact::decode(bytes, version, limit);
    }
    if bytes.starts_with(jemalloc::MAGIC) {
        return jemalloc::read(bytes, 1, limit);
    }
    if bytes.starts_with(gperftools::MAGIC) || bytes.starts_with(gperftools::COMMAND) {
        return gperftools::read(bytes, 1, limit);
    }
    if symbolized::opens(bytes, b"symbol") {
        return symbolized::read(bytes, limit);
    }
    if heaptrack::is_heaptrack(bytes) {
        return heaptrack::read(bytes, limit);
    }
    if is_dhat(bytes) {
        return dhat::read(bytes, limit);
    }
    if skynet::is_length_prefixed(bytes) {
        return skynet::read(bytes, limit);
    }
    if folded::is_folded(bytes) {
        return folded::read(bytes, limit);
    }
    if is_protobuf(bytes) {
        return pprof::read(bytes, limit);
    }
    Err(ReadError::unrecognised(bytes))
}

fn is_dhat(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(HEAD_BYTES as usize)];
    head.trim_ascii_start().starts_with(b"{")
        && head.windows(dhat::KEY.len()).any(|window| window == dhat::KEY)
}

/// Whether the first byte is the tag of a field that pprof's top message has: 1 to 14, a varint or
/// a length.
fn is_protobuf(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|tag| matches!(tag & 7, 0 | 2) && (1..=14).contains(&(tag >> 3)))
}
