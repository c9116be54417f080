//! Finds the rule of an address in the `.eh_frame` of its module.
//!
//! The binary search table of `.eh_frame_hdr` is used in every encoding gimli can search; a module
//! without a usable table is searched from front to back, once per address.

use core::cell::Cell;

use gimli::{
    BaseAddresses, CommonInformationEntry, EhFrame, EhFrameHdr, EhFrameOffset, FrameDescriptionEntry,
    NativeEndian, Section, UnwindSection,
};

use super::expression::Bytes;
use super::rule::Rule;
use super::{cfi, machine};
use crate::modules::Image;

/// The rule of the instruction at `address`, [`Rule::UNKNOWN`] if the module has none we can use.
pub(super) fn rule_at(image: &Image, address: u64) -> Rule {
    let (mut spare, mut other_spare) = (SPARE, SPARE);
    let table = Table::of(image);
    let covering = table.as_ref().and_then(|table| table.find(address, &mut spare));
    let described = match (&table, &covering) {
        (Some(table), Some(fde)) => cfi::rule_at(&table.section, &table.bases, fde, address),
        _ => None,
    };
    // A handler returns to the first byte of the trampoline; `address` is one before it.
    let next = address.wrapping_add(1);
    let trampoline = || machine::trampoline_rule(image.bytes_from(next)?);
    let linkage = || machine::linkage_rule(image.bytes_from(address)?);
    let first_frame = || {
        // A return address that no call can have pushed: it is a function's first byte, without
        // code before it. The code that made this stack (`makecontext`) stored it as the outermost
        // frame.
        let starts_here = |fde: FrameDescriptionEntry<Bytes<'_>>| fde.initial_address() == next;
        let made_by_hand =
            covering.is_none() && table.as_ref()?.find(next, &mut other_spare).is_some_and(starts_here);
        made_by_hand.then_some(Rule::END)
    };
    // Go's linker describes no function here.
    let go = || (covering.is_none() && machine::GO_KEEPS_FRAMES && image.is_go()).then_some(Rule::GO);
    let rule = described.or_else(trampoline).or_else(linkage).or_else(first_frame).or_else(go);
    rule.unwrap_or(Rule::UNKNOWN)
}

/// Where the function at `address` has saved its caller's registers, and the bytes of its code.
pub(super) fn saves_at(image: &Image, address: u64) -> Option<(cfi::Saves, u64)> {
    let mut spare = SPARE;
    let table = Table::of(image)?;
    let fde = table.find(address, &mut spare)?;
    Some((cfi::saves_at(&table.section, &table.bases, &fde, address)?, fde.len()))
}

/// Room for a common information entry, which describes nothing but the beginning of a function: 20
/// to 40 bytes.
const SPARE: [u8; 64] = [0; 64];

/// The unwind information of a module.
struct Table {
    header: gimli::ParsedEhFrameHdr<Bytes<'static>>,
    section: EhFrame<Bytes<'static>>,
    bases: BaseAddresses,
}

impl Table {
    fn of(image: &Image) -> Option<Table> {
        let header_bytes = image.bytes_from(image.eh_frame_hdr())?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(image.eh_frame_hdr());
        let header = EhFrameHdr::new(header_bytes, NativeEndian).parse(&bases, 8).ok()?;
        let start = match header.eh_frame_ptr() {
            gimli::Pointer::Direct(address) => address,
            gimli::Pointer::Indirect(slot) => word(image.bytes_from(slot)?)?,
        };
        let mut section = EhFrame::new(image.bytes_from(start)?, NativeEndian);
        section.set_address_size(8);
        section.set_vendor(machine::VENDOR);
        Some(Table { header, section, bases: bases.set_eh_frame(start) })
    }

    /// The entry that covers `address`.
    fn find<'a>(&self, address: u64, spare: &'a mut [u8]) -> Option<FrameDescriptionEntry<Bytes<'a>>> {
        let (section, bases): (&EhFrame<Bytes<'a>>, _) = (&self.section, &self.bases);
        let header: &gimli::ParsedEhFrameHdr<Bytes<'a>> = &self.header;
        let spare = Cell::new(spare);
        let common =
            |section: &EhFrame<Bytes<'a>>, bases: &BaseAddresses, offset: EhFrameOffset<usize>| match section
                .cie_from_offset(bases, offset)
            {
                Err(gimli::Error::UnknownAugmentation) => without_key(section, bases, offset, spare.take()),
                found => found,
            };
        let searched = header.table().map(|table| table.fde_for_address(section, bases, address, common));
        match searched {
            Some(Ok(fde)) => Some(fde),
            Some(Err(gimli::Error::NoUnwindInfoForAddress)) => None,
            Some(Err(_)) | None => section.fde_for_address(bases, address, EhFrame::cie_from_offset).ok(),
        }
    }
}

/// A common information entry with augmentations that gimli does not support, without these.
fn without_key<'a>(
    section: &EhFrame<Bytes<'a>>,
    bases: &BaseAddresses,
    offset: EhFrameOffset<usize>,
    spare: &'a mut [u8],
) -> gimli::Result<CommonInformationEntry<Bytes<'a>>> {
    let entry = section.reader().slice().get(offset.0..);
    let shorter = entry.and_then(|entry| shortened(entry, spare)).ok_or(gimli::Error::UnknownAugmentation)?;
    let mut section = EhFrame::new(shorter, NativeEndian);
    section.set_address_size(8);
    section.set_vendor(machine::VENDOR);
    section.cie_from_offset(bases, EhFrameOffset(0))
}

/// The entry without the letter `B`: that the second of two keys signs return addresses (aarch64).
/// Codes are stripped for either key.
fn shortened<'a>(entry: &[u8], spare: &'a mut [u8]) -> Option<&'a [u8]> {
    /// Bytes before the letters: length, identifier, version.
    const BEFORE: usize = 4 + 4 + 1;
    let length = u32::from_ne_bytes(*entry.first_chunk()?);
    let entry = entry.get(4..usize::try_from(length).ok()?.checked_add(4)?)?;
    let letters = entry.get(BEFORE - 4..)?.split(|byte| *byte == 0).next()?;
    let (before, after) =
        entry.split_at_checked(BEFORE - 4 + letters.iter().position(|byte| *byte == b'B')?)?;
    let copy = spare.get_mut(..entry.len().checked_add(3)?)?;
    let length = length.checked_sub(1)?.to_ne_bytes();
    let bytes = length.iter().chain(before).chain(after.get(1..)?);
    copy.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    Some(copy)
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As gcc writes it for `-mbranch-protection=pac-ret+b-key`.
    const SIGNED_WITH_B: &[u8] = b"\x12\0\0\0\0\0\0\0\x01zRB\0\x04\x78\x1e\x01\x1b\x0c\x1f\0\0";
    const SIGNED_WITH_A: &[u8] = b"\x11\0\0\0\0\0\0\0\x01zR\0\x04\x78\x1e\x01\x1b\x0c\x1f\0\0";

    #[test]
    fn an_entry_that_names_the_second_key_says_the_rest_too() {
        let mut spare = SPARE;
        // Other entries follow it.
        let entry = [SIGNED_WITH_B, b"\x10\0\0\0"].concat();
        assert_eq!(shortened(&entry, &mut spare), Some(SIGNED_WITH_A));
        assert_eq!(shortened(SIGNED_WITH_A, &mut spare), None);
        assert_eq!(shortened(&SIGNED_WITH_B[..12], &mut spare), None, "cut off");
        assert_eq!(shortened(SIGNED_WITH_B, &mut [0; 20]), None, "no room");
    }
}
