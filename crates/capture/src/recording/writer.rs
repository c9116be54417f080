//! One recording file being written. Every frame goes out in one write, so a killed recorder leaves
//! whole frames and at most one cut-off.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use heapwise_format::recording::{
    FRAME_HEADER_BYTES, FrameHeader, FrameKind, IndexRow, TRAILER_BYTES, Trailer, preamble,
};
use heapwise_profile::recording::RawFrame;

use super::packing::{self, Packed};
use crate::own_files::create_output;

/// Writes frames to a file.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    path: PathBuf,
    offset: u64,
    index: Vec<u8>,
}

impl Writer {
    /// Creates the file (see [`create_output`]); only its owner may read what a program did.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut file = create_output(path)?;
        let preamble = preamble();
        file.write_all(&preamble)?;
        Ok(Self { file, path: path.to_owned(), offset: preamble.len() as u64, index: Vec::new() })
    }

    /// Opens a recording that was ended, to write more frames behind its last. Until
    /// [`Writer::end`] it is one that was not ended, and readable as such.
    pub(super) fn reopen(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let damaged = || io::Error::other("the recording was not ended, or is damaged");
        let at = file.metadata()?.len().checked_sub(TRAILER_BYTES as u64).ok_or_else(damaged)?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, at)?;
        let offset = Trailer::decode(&trailer).ok_or_else(damaged)?.index_offset;
        let mut header = [0; FRAME_HEADER_BYTES];
        file.read_exact_at(&mut header, offset)?;
        let header = FrameHeader::decode(&header).ok_or_else(damaged)?;
        let mut stored = vec![0; header.stored_bytes as usize];
        file.read_exact_at(&mut stored, offset + FRAME_HEADER_BYTES as u64)?;
        let index = packing::unpack(header.codec, stored, header.raw_bytes as usize).ok_or_else(damaged)?;
        file.set_len(offset)?;
        let mut file = file;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { file, path: path.to_owned(), offset, index })
    }

    /// Packs and writes a frame.
    pub(super) fn put(&mut self, frame: &RawFrame) -> io::Result<()> {
        self.put_packed(&frame.header, frame.payload.len(), &packing::pack(frame))
    }

    /// Writes a frame that is packed already.
    pub(super) fn put_packed(
        &mut self,
        header: &FrameHeader,
        raw_bytes: usize,
        packed: &Packed,
    ) -> io::Result<()> {
        let header = header.seal(packed.codec, raw_bytes, &packed.bytes);
        let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + packed.bytes.len());
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(&packed.bytes);
        self.file.write_all(&bytes)?;
        self.index.extend_from_slice(&IndexRow { offset: self.offset, header }.encode());
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Bytes written, with what [`Writer::end`] will add at most.
    pub(super) fn bytes(&self) -> u64 {
        self.offset + (self.index.len() + FRAME_HEADER_BYTES + TRAILER_BYTES) as u64
    }

    /// Writes the index and ends the file.
    pub(super) fn end(mut self) -> io::Result<PathBuf> {
        let trailer = Trailer { index_offset: self.offset };
        let payload = std::mem::take(&mut self.index);
        self.put(&RawFrame { header: FrameHeader::new(FrameKind::Index), payload })?;
        self.file.write_all(&trailer.encode())?;
        Ok(self.path)
    }
}
