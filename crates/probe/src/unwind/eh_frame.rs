//! Finds the rule of an address in the `.eh_frame` of its module.
//!
//! The binary search table of `.eh_frame_hdr` is used in every encoding gimli can search; a module
//! without a usable table is searched from front to back, once per address.

use gimli::{BaseAddresses, EhFrame, EhFrameHdr, FrameDescriptionEntry, NativeEndian, UnwindSection};

use super::expression::Bytes;
use super::rule::Rule;
use super::{cfi, machine};
use crate::modules::Image;

/// The rule of the instruction at `address`, [`Rule::UNKNOWN`] if the module has none we can use.
pub(super) fn rule_at(image: &Image, address: u64) -> Rule {
    let table = Table::of(image);
    let covering = table.as_ref().and_then(|table| table.find(address));
    let described = match (&table, &covering) {
        (Some(table), Some(fde)) => cfi::rule_at(&table.section, &table.bases, fde, address),
        _ => None,
    };
    // A handler returns to the first byte of the trampoline; `address` is one before it.
    let next = address.wrapping_add(1);
    let trampoline = || machine::trampoline_rule(image.bytes_from(next)?);
    let linkage = || machine::linkage_rule(image.bytes_from(address)?);
    let first_frame = || {
        // A return address that nothing can have called from: no code before it, and a function's first byte.
        // Whoever made this stack (`makecontext`) put it there by hand, as the outermost frame.
        let starts_here = |fde: FrameDescriptionEntry<Bytes>| fde.initial_address() == next;
        let made_by_hand = covering.is_none() && table.as_ref()?.find(next).is_some_and(starts_here);
        made_by_hand.then_some(Rule::END)
    };
    described.or_else(trampoline).or_else(linkage).or_else(first_frame).unwrap_or(Rule::UNKNOWN)
}

/// The unwind information of a module.
struct Table {
    header: gimli::ParsedEhFrameHdr<Bytes>,
    section: EhFrame<Bytes>,
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
    fn find(&self, address: u64) -> Option<FrameDescriptionEntry<Bytes>> {
        let (section, bases) = (&self.section, &self.bases);
        let searched = self
            .header
            .table()
            .map(|table| table.fde_for_address(section, bases, address, EhFrame::cie_from_offset));
        match searched {
            Some(Ok(fde)) => Some(fde),
            Some(Err(gimli::Error::NoUnwindInfoForAddress)) => None,
            Some(Err(_)) | None => section.fde_for_address(bases, address, EhFrame::cie_from_offset).ok(),
        }
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}
