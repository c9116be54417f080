//! Finds the rule of an address in the `.eh_frame` of its module.
//!
//! The binary search table of `.eh_frame_hdr` is used in every encoding gimli can search; a module
//! without a usable table is searched from front to back, once per address.
#![allow(unsafe_code)]

use gimli::{BaseAddresses, EhFrame, EhFrameHdr, FrameDescriptionEntry, NativeEndian, UnwindSection};

use super::expression::Bytes;
use super::rule::Rule;
use super::{cfi, machine};
use crate::modules::Image;

/// The rule of the instruction at `address`, [`Rule::UNKNOWN`] if the module has none we can use.
pub(super) fn rule_at(image: &Image, address: u64) -> Rule {
    let rule = search(image, address).or_else(|| {
        // The handler returns to the first byte of the trampoline; `address` is one before it.
        let code = image.bytes_from(address.wrapping_add(1))?;
        machine::trampoline_rule(code)
    });
    rule.unwrap_or(Rule::UNKNOWN)
}

fn search(image: &Image, address: u64) -> Option<Rule> {
    let header_bytes = image.bytes_from(image.eh_frame_hdr())?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(image.eh_frame_hdr());
    let header = EhFrameHdr::new(header_bytes, NativeEndian).parse(&bases, 8).ok()?;
    let start = match header.eh_frame_ptr() {
        gimli::Pointer::Direct(address) => address,
        gimli::Pointer::Indirect(slot) => word(image.bytes_from(slot)?)?,
    };
    let bases = bases.set_eh_frame(start);
    let mut section = EhFrame::new(image.bytes_from(start)?, NativeEndian);
    section.set_address_size(8);
    section.set_vendor(machine::VENDOR);
    let fde = find(&header, &section, &bases, address)?;
    cfi::rule_at(&section, &bases, &fde, address)
}

fn find(
    header: &gimli::ParsedEhFrameHdr<Bytes>,
    section: &EhFrame<Bytes>,
    bases: &BaseAddresses,
    address: u64,
) -> Option<FrameDescriptionEntry<Bytes>> {
    let found =
        header.table().map(|table| table.fde_for_address(section, bases, address, EhFrame::cie_from_offset));
    match found {
        Some(Ok(fde)) => Some(fde),
        Some(Err(gimli::Error::NoUnwindInfoForAddress)) => None,
        Some(Err(_)) | None => section.fde_for_address(bases, address, EhFrame::cie_from_offset).ok(),
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}
