//! Compression and size limit of an exported file.

use std::io::{self, Write};
use std::path::Path;

use flate2::{Compression, write::GzEncoder};

use super::Format;

/// Level of zstd: its default.
const ZSTD_LEVEL: i32 = 3;

/// How an exported file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// Not at all, or by the format itself.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Packing {
    /// The ending of a name decides: `.gz`, `.zst`. Formats that compress themselves stay as they
    /// are.
    #[must_use]
    pub fn of(path: &Path, format: Format) -> Self {
        let ending = path.extension().and_then(|ending| ending.to_str());
        match ending {
            _ if matches!(format, Format::Pprof | Format::Heapwise) => Packing::None,
            Some("gz") => Packing::Gzip,
            Some("zst" | "zstd") => Packing::Zstd,
            _ => Packing::None,
        }
    }

    /// Runs `write` with a stream whose bytes reach `out` compressed.
    ///
    /// # Errors
    /// Those of `write` and of `out`.
    pub fn pack(
        self,
        out: &mut dyn Write,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Packing::None => write(out),
            Packing::Gzip => {
                let mut packer = GzEncoder::new(out, Compression::default());
                write(&mut packer)?;
                packer.finish().map(drop)
            }
            Packing::Zstd => {
                let mut packer = zstd::Encoder::new(out, ZSTD_LEVEL)?;
                packer.include_checksum(true)?;
                write(&mut packer)?;
                packer.finish().map(drop)
            }
        }
    }
}

/// A stream that fails at its limit: a small profile can name a stack of a million frames a million
/// times, which formats of whole stacks would write out.
pub struct Limited<'a> {
    out: &'a mut dyn Write,
    limit_bytes: u64,
    left_bytes: u64,
}

impl<'a> Limited<'a> {
    /// Passes on up to `limit_bytes`.
    pub fn new(out: &'a mut dyn Write, limit_bytes: u64) -> Self {
        Self { out, limit_bytes, left_bytes: limit_bytes }
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left_bytes.checked_sub(bytes.len() as u64) else {
            let limit = heapwise_profile::quantity::bytes(self.limit_bytes as f64);
            let what = format!("the result is larger than {limit}; --limit SIZE allows more");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        };
        self.out.write_all(bytes)?;
        self.left_bytes = left;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_but_for_formats_that_compress_themselves() {
        let of = |name: &str, format| Packing::of(Path::new(name), format);
        assert_eq!(of("a.heaptrack.zst", Format::Heaptrack), Packing::Zstd);
        assert_eq!(of("a.folded.gz", Format::Folded), Packing::Gzip);
        assert_eq!(of("a.folded", Format::Folded), Packing::None);
        assert_eq!(of("a.pb.gz", Format::Pprof), Packing::None);
    }

    #[test]
    fn a_limit_is_kept_to_the_byte() {
        let mut out = Vec::new();
        let mut limited = Limited::new(&mut out, 5);
        assert!(limited.write_all(b"12345").is_ok());
        assert_eq!(limited.write_all(b"6").unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(out, b"12345");
    }
}
