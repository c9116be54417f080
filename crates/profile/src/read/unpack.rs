//! gzip and zstd, recognised by their first bytes and bounded in what they unfold to.

use std::io::{self, ErrorKind, Read};

use flate2::read::MultiGzDecoder;
use zstd::stream::raw::{Decoder, Operation as _};

use super::error::{Position, ReadError};

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// By content; `None` for a file that is not compressed.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        }
    }
}

/// Decompressed bytes a file held in memory may have per compressed byte: profiles in pprof's and
/// the text forms reach 5 to 30.
pub const HELD_RATIO: u64 = 256;

/// Largest ratio of a file that is read as a stream, which costs only time: event streams of loops
/// reach thousands.
const STREAMED_RATIO: u64 = 16 << 10;

/// Small files may have any ratio up to this size.
const FLOOR_BYTES: u64 = 16 << 20;

/// A decompressing stream that stops with an error at its limit.
pub(super) struct Unpacked<'a> {
    packing: Packing,
    inner: Box<dyn Read + 'a>,
    limit_bytes: u64,
    done_bytes: u64,
}

impl<'a> Unpacked<'a> {
    /// A stream of a file that will be held in memory whole.
    pub(super) fn held(bytes: &'a [u8], packing: Packing, most_bytes: u64) -> Self {
        let mut unpacked = Self::open(bytes, packing, HELD_RATIO);
        unpacked.limit_bytes = unpacked.limit_bytes.min(most_bytes);
        unpacked
    }

    /// A stream of a file that will be looked at piece by piece.
    pub(super) fn streamed(bytes: &'a [u8], packing: Packing) -> Self {
        Self::open(bytes, packing, STREAMED_RATIO)
    }

    fn open(bytes: &'a [u8], packing: Packing, ratio: u64) -> Self {
        let inner: Box<dyn Read> = match packing {
            Packing::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            Packing::Zstd => Box::new(ZstdFrames { rest: bytes, decoder: None, wanted: 0 }),
        };
        Self {
            packing,
            inner,
            limit_bytes: (bytes.len() as u64).saturating_mul(ratio).max(FLOOR_BYTES),
            done_bytes: 0,
        }
    }

    /// The first bytes, at most `length`.
    pub(super) fn head(mut self, length: u64) -> Result<Vec<u8>, ReadError> {
        let mut head = Vec::new();
        let taken = self.by_ref().take(length).read_to_end(&mut head);
        // A file cut off within its first bytes is still detected by the remaining ones.
        match taken {
            Err(error) if head.is_empty() => Err(self.explain(&error)),
            _ => Ok(head),
        }
    }

    /// All bytes.
    pub(super) fn all(mut self) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        let taken = self.read_to_end(&mut bytes);
        taken.map_err(|error| self.explain(&error))?;
        Ok(bytes)
    }

    fn explain(&self, error: &io::Error) -> ReadError {
        explain(error, self.packing, self.done_bytes, self.limit_bytes)
    }
}

/// Meaning of an error of an [`Unpacked`] stream.
fn explain(error: &io::Error, packing: Packing, done_bytes: u64, limit_bytes: u64) -> ReadError {
    let format = packing.name();
    match error.kind() {
        ErrorKind::FileTooLarge => ReadError::TooLarge { format, limit_bytes },
        _ => ReadError::Malformed {
            format,
            at: Position::Byte(done_bytes),
            what: format!("decompression stopped: {error}"),
        },
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done_bytes += count as u64;
        if self.done_bytes > self.limit_bytes {
            let what = format!("more than {} bytes", self.limit_bytes);
            return Err(io::Error::new(ErrorKind::FileTooLarge, what));
        }
        Ok(count)
    }
}

/// The frames of a zstd file one after the other. A step takes as many bytes as the decoder
/// requests, a block or a checksum, so that everything before a damaged one is delivered. The
/// window is at most 128 MiB, zstd's own limit.
struct ZstdFrames<'a> {
    rest: &'a [u8],
    /// `None` between frames.
    decoder: Option<Decoder<'static>>,
    /// Bytes the decoder requests.
    wanted: usize,
}

impl Read for ZstdFrames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let decoder = match &mut self.decoder {
                Some(decoder) => decoder,
                None if self.rest.is_empty() => return Ok(0),
                None => self.decoder.insert(Decoder::new()?),
            };
            let input = &self.rest[..self.wanted.max(1).min(self.rest.len())];
            let status = decoder.run_on_buffers(input, buffer)?;
            self.rest = &self.rest[status.bytes_read..];
            self.wanted = status.remaining;
            if status.remaining == 0 {
                self.decoder = None;
            }
            if status.bytes_written > 0 || buffer.is_empty() {
                return Ok(status.bytes_written);
            }
            if self.decoder.is_some() && status.bytes_read == 0 && self.rest.is_empty() {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the file ends within a frame"));
            }
        }
    }
}
