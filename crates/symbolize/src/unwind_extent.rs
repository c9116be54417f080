//! Function extents from `.eh_frame`: the second opinion on symbols that state no size.

use std::borrow::Cow;

use gimli::{BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, RunTimeEndian, UnwindSection};
use object::{Object, ObjectSection};

use crate::{Svma, elf::Elf};

/// The unwind table of a binary, searched through the sorted index in `.eh_frame_hdr`; a binary
/// without that index has no opinion.
pub(crate) struct UnwindExtents<'a> {
    index: Cow<'a, [u8]>,
    frames: Cow<'a, [u8]>,
    bases: BaseAddresses,
    endian: RunTimeEndian,
    address_size: u8,
}

impl<'a> UnwindExtents<'a> {
    pub(crate) fn new(elf: &Elf<'a>) -> Self {
        let address = |name| elf.file.section_by_name(name).map(|it| it.address());
        let mut bases = BaseAddresses::default();
        if let Some(start) = address(".eh_frame_hdr") {
            bases = bases.set_eh_frame_hdr(start);
        }
        if let Some(start) = address(".eh_frame") {
            bases = bases.set_eh_frame(start);
        }
        if let Some(start) = address(".text") {
            bases = bases.set_text(start);
        }
        Self {
            index: elf.section(".eh_frame_hdr").unwrap_or_default(),
            frames: elf.section(".eh_frame").unwrap_or_default(),
            bases,
            endian: if elf.file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big },
            address_size: if elf.file.is_64() { 8 } else { 4 },
        }
    }

    /// Whether `address` may belong to the symbol at `start`: both in the same entry, or neither
    /// in any.
    pub(crate) fn allow(&self, start: Svma, address: Svma) -> bool {
        self.function_start(start) == self.function_start(address)
    }

    /// First address of the entry that covers an address.
    fn function_start(&self, address: Svma) -> Option<u64> {
        let header = EhFrameHdr::new(&self.index, self.endian).parse(&self.bases, self.address_size).ok()?;
        let mut frames = EhFrame::from(EndianSlice::new(&self.frames, self.endian));
        frames.set_address_size(self.address_size);
        let entry = header
            .table()?
            .fde_for_address(&frames, &self.bases, address.0, EhFrame::cie_from_offset)
            .ok()?;
        Some(entry.initial_address())
    }
}
