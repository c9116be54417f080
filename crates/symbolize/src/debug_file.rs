//! A file with DWARF in it, with its sections found and inflated once.

use std::{borrow::Cow, cell::Cell, ops::Range, sync::Arc};

use gimli::{Dwarf, DwarfPackageSections, DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use object::Object;

use crate::{
    elf::Elf,
    image::Image,
    metered::{Meter, Metered, Slice},
};

/// Sections of a binary, a separate debug file, a `.dwo` or a `.dwp`; `S` is gimli's set of them.
#[derive(Debug)]
pub(crate) struct DebugFile<S> {
    pub(crate) image: Arc<Image>,
    sections: S,
    endian: RunTimeEndian,
}

/// A section as it lies in the file, or inflated.
#[derive(Debug)]
enum Section {
    InFile(Range<usize>),
    Inflated(Vec<u8>),
}

/// DWARF of a binary or of one split unit.
pub(crate) type UnitFile = DebugFile<DwarfSections<SectionBytes>>;
/// DWARF of many split units with an index.
pub(crate) type PackageFile = DebugFile<DwarfPackageSections<SectionBytes>>;

/// Bytes of one section; meaningful only beside the image they were taken from.
#[derive(Debug)]
pub(crate) struct SectionBytes(Section);

impl UnitFile {
    /// Takes the sections of a linked file.
    pub(crate) fn linked(image: Arc<Image>) -> Option<Self> {
        Self::load(image, |id| Some(id.name()))
    }

    /// Takes the sections of a `.dwo`.
    pub(crate) fn split(image: Image) -> Option<Self> {
        Self::load(Arc::new(image), SectionId::dwo_name)
    }

    fn load(image: Arc<Image>, name: impl Fn(SectionId) -> Option<&'static str>) -> Option<Self> {
        let elf = Elf::parse(&image).ok()?;
        let endian = endian_of(&elf);
        let name = |id| name(id).filter(|_| is_needed(id));
        let sections = DwarfSections::load(|id| section(&image, &elf, name(id))).ok()?;
        Some(Self { image, sections, endian })
    }

    pub(crate) fn dwarf<'a>(&'a self, meter: &'a Meter) -> Dwarf<Metered<'a>> {
        self.sections.borrow(|section| Metered::new(section.slice(&self.image, self.endian), meter))
    }

    /// Bytes of all sections, for the meter.
    pub(crate) fn size(&self) -> u64 {
        let total = Cell::new(0);
        self.sections.borrow(|section| {
            let slice = section.slice(&self.image, self.endian);
            total.set(total.get() + slice.len() as u64);
            slice
        });
        total.get()
    }
}

impl PackageFile {
    pub(crate) fn open(image: Image) -> Option<Self> {
        let elf = Elf::parse(&image).ok()?;
        let endian = endian_of(&elf);
        let sections = DwarfPackageSections::load(|id| section(&image, &elf, id.dwo_name())).ok()?;
        Some(Self { image: Arc::new(image), sections, endian })
    }

    pub(crate) fn package<'a>(&'a self, meter: &'a Meter) -> Option<gimli::DwarfPackage<Metered<'a>>> {
        let metered = |slice| Metered::new(slice, meter);
        let empty = metered(EndianSlice::new(&[], self.endian));
        self.sections.borrow(|section| metered(section.slice(&self.image, self.endian)), empty).ok()
    }
}

impl SectionBytes {
    fn slice<'a>(&'a self, image: &'a Image, endian: RunTimeEndian) -> Slice<'a> {
        let bytes = match &self.0 {
            Section::InFile(range) => image.get(range.clone()).unwrap_or_default(),
            Section::Inflated(bytes) => bytes,
        };
        EndianSlice::new(bytes, endian)
    }
}

pub(crate) fn endian_of(elf: &Elf<'_>) -> RunTimeEndian {
    if elf.file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big }
}

/// Whether lookups of functions and lines read a section; the others (variables, macros) can be
/// most of a file, and need not be inflated.
fn is_needed(id: SectionId) -> bool {
    use SectionId as Id;
    !matches!(
        id,
        Id::DebugLoc
            | Id::DebugLocLists
            | Id::DebugMacinfo
            | Id::DebugMacro
            | Id::DebugNames
            | Id::DebugTypes
    )
}

/// A missing or damaged section is an empty one: what depends on it stays unresolved.
fn section(image: &Image, elf: &Elf<'_>, name: Option<&str>) -> gimli::Result<SectionBytes> {
    let section = match name.and_then(|name| elf.section(name)) {
        Some(Cow::Borrowed(bytes)) => {
            let start = bytes.as_ptr().addr().wrapping_sub(image.as_ptr().addr());
            Section::InFile(start..start.saturating_add(bytes.len()))
        }
        Some(Cow::Owned(bytes)) => Section::Inflated(bytes),
        None => Section::InFile(0..0),
    };
    Ok(SectionBytes(section))
}
