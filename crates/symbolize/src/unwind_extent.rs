//! Function extents from `.eh_frame`: the second opinion on symbols that state no size, and all
//! that is known about functions that have no symbol.

use std::borrow::Cow;

use gimli::{BaseAddresses, EhFrame, EhFrameOffset, EndianSlice, RunTimeEndian, UnwindSection};
use object::{Object, ObjectSection};

use crate::{Svma, debug_file::endian_of, elf::Elf};

/// First bytes of an `.eh_frame_hdr` as every linker writes it: version 1, a pointer to `.eh_frame`
/// (relative, 4 bytes), a count (4 bytes), pairs of 4-byte numbers relative to the header.
const INDEX_HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// Bytes before the pairs.
const INDEX_START: usize = 12;

/// The unwind table of a binary, searched through the sorted index in `.eh_frame_hdr`; a binary
/// without that index has no opinion.
#[derive(Default)]
pub(crate) struct UnwindExtents<'a> {
    /// Pairs of function start and table entry, both relative to `index_address`.
    index: Cow<'a, [u8]>,
    index_address: u64,
    frames: Cow<'a, [u8]>,
    frames_address: u64,
    endian: RunTimeEndian,
    address_size: u8,
}

impl<'a> UnwindExtents<'a> {
    pub(crate) fn new(elf: &Elf<'a>) -> Self {
        let address = |name| elf.file.section_by_name(name).map_or(0, |it| it.address());
        let index = elf.section(".eh_frame_hdr").filter(|index| index.starts_with(&INDEX_HEADER));
        Self {
            index: index.unwrap_or_default(),
            index_address: address(".eh_frame_hdr"),
            frames: elf.section(".eh_frame").unwrap_or_default(),
            frames_address: address(".eh_frame"),
            endian: endian_of(elf),
            address_size: if elf.file.is_64() { 8 } else { 4 },
        }
    }

    /// Whether `address` may belong to the symbol at `start`: both in the same entry, or neither
    /// in any.
    pub(crate) fn allow(&self, start: Svma, address: Svma) -> bool {
        self.function_start(start) == self.function_start(address)
    }

    /// First address of the entry that covers an address.
    pub(crate) fn function_start(&self, address: Svma) -> Option<Svma> {
        let (pairs, _) = self.index.get(INDEX_START..)?.as_chunks::<8>();
        let after = pairs.partition_point(|pair| self.relative(pair.first_chunk()) <= address.0);
        let entry = self.relative(pairs[..after].last()?.last_chunk());
        let offset = usize::try_from(entry.checked_sub(self.frames_address)?).ok()?;
        let mut frames = EhFrame::from(EndianSlice::new(&self.frames, self.endian));
        frames.set_address_size(self.address_size);
        let bases = BaseAddresses::default().set_eh_frame(self.frames_address);
        let offset = EhFrameOffset(offset);
        let entry = frames.fde_from_offset(&bases, offset, EhFrame::cie_from_offset).ok()?;
        let start = entry.initial_address();
        (address.0.checked_sub(start)? < entry.len()).then_some(Svma(start))
    }

    /// Address of a number in the index.
    fn relative(&self, number: Option<&[u8; 4]>) -> u64 {
        let bytes = number.copied().unwrap_or_default();
        let distance = match self.endian {
            RunTimeEndian::Little => i32::from_le_bytes(bytes),
            RunTimeEndian::Big => i32::from_be_bytes(bytes),
        };
        self.index_address.wrapping_add_signed(i64::from(distance))
    }
}
