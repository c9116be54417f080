//! gzip and zstd, recognised by their first bytes and bounded in what they unfold to.

use std::io::{self, ErrorKind, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder, StreamingDecoder};

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

/// The same for a file that is read as a stream, where only time is at stake: event streams of
/// loops reach thousands.
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
    pub(super) fn held(bytes: &'a [u8], packing: Packing) -> Self {
        Self::open(bytes, packing, HELD_RATIO)
    }

    /// A stream of a file that will be looked at piece by piece.
    pub(super) fn streamed(bytes: &'a [u8], packing: Packing) -> Self {
        Self::open(bytes, packing, STREAMED_RATIO)
    }

    fn open(bytes: &'a [u8], packing: Packing, ratio: u64) -> Self {
        let inner: Box<dyn Read> = match packing {
            Packing::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            Packing::Zstd => Box::new(ZstdFrames::Between(bytes)),
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
        // A file cut off within its first bytes is still known by what is left of them.
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

/// What an error of an [`Unpacked`] stream means.
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

/// The frames of a zstd file one after the other; the decoder itself ends with the first.
enum ZstdFrames<'a> {
    Between(&'a [u8]),
    Within(Box<StreamingDecoder<&'a [u8], FrameDecoder>>),
    /// What was unpacked before the damage, then the damage.
    Broken(Box<FrameDecoder>, String),
}

impl Read for ZstdFrames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self {
                ZstdFrames::Between([]) => return Ok(0),
                ZstdFrames::Between(rest) => {
                    let decoder = StreamingDecoder::new(*rest).map_err(io::Error::other)?;
                    *self = ZstdFrames::Within(Box::new(decoder));
                }
                ZstdFrames::Within(decoder) => match decoder.read(buffer) {
                    Ok(0) if !buffer.is_empty() => {
                        check(&decoder.decoder)?;
                        let rest: &[u8] = decoder.get_ref();
                        *self = ZstdFrames::Between(rest);
                    }
                    Ok(count) => return Ok(count),
                    Err(damage) => {
                        let ended = end(std::mem::take(&mut decoder.decoder));
                        *self = ZstdFrames::Broken(Box::new(ended), damage.to_string());
                    }
                },
                ZstdFrames::Broken(decoder, damage) => match decoder.read(buffer)? {
                    0 if !buffer.is_empty() => return Err(io::Error::other(damage.clone())),
                    count => return Ok(count),
                },
            }
        }
    }
}

fn check(decoder: &FrameDecoder) -> io::Result<()> {
    let told = decoder.get_checksum_from_data();
    match told.is_none() || told == decoder.get_calculated_checksum() {
        true => Ok(()),
        false => Err(io::Error::other("the checksum differs, so something before is wrong")),
    }
}

/// Makes a decoder that failed give away what it keeps for blocks to come, up to megabytes: a last
/// block without content ends the frame.
fn end(mut decoder: FrameDecoder) -> FrameDecoder {
    const LAST_BLOCK: [u8; 3] = [1, 0, 0];
    const CHECKSUM: [u8; 4] = [0; 4];
    let end = [&LAST_BLOCK[..], &CHECKSUM].concat();
    // If it fails again, there is nothing to give away.
    let _ = decoder.decode_blocks(&end[..], BlockDecodingStrategy::UptoBlocks(1));
    decoder
}
