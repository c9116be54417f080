//! Split DWARF: units whose debug information was left in a `.dwo`, or gathered in a `.dwp`.
// `Arc` is what addr2line resumes a lookup with; a lookup stays on its thread.
#![allow(clippy::arc_with_non_send_sync)]

use std::{
    cell::Cell,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use addr2line::SplitDwarfLoad;
use gimli::{Dwarf, DwarfPackage};
use typed_arena::Arena;

use crate::{
    Options,
    debug_file::{PackageFile, UnitFile},
    image::Image,
    metered::{Meter, Metered},
};

/// Most bytes of `.dwo` files one lookup opens: units may all name the same file.
const MAX_UNIT_BYTES: u64 = 4 << 30;

/// Finds split units by the id the skeleton states, and keeps their files while a lookup borrows.
pub(crate) struct SplitUnits<'a> {
    files: Arena<UnitFile>,
    package: Option<DwarfPackage<Metered<'a>>>,
    options: &'a Options,
    /// Bytes of `.dwo` files that may still be opened.
    room: Cell<u64>,
    were_missing: Cell<bool>,
    pub(crate) meter: &'a Meter,
}

impl<'a> SplitUnits<'a> {
    pub(crate) fn new(package: Option<&'a PackageFile>, options: &'a Options, meter: &'a Meter) -> Self {
        let package = package.and_then(|file| {
            meter.extend(file.image.len() as u64);
            file.package(meter)
        });
        Self {
            files: Arena::new(),
            package,
            options,
            room: Cell::new(MAX_UNIT_BYTES),
            were_missing: Cell::new(false),
            meter,
        }
    }

    /// The unit of a lookup; `None` leaves the skeleton's own lines.
    pub(crate) fn load(&'a self, wanted: &SplitDwarfLoad<Metered<'a>>) -> Option<Arc<Dwarf<Metered<'a>>>> {
        let packed = self.package.as_ref();
        let packed = packed.and_then(|it| it.find_cu(wanted.dwo_id, &wanted.parent).ok()?);
        if let Some(unit) = packed {
            return Some(Arc::new(unit));
        }
        let found = self.candidates(wanted).into_iter().find_map(|path| self.open(&path, wanted));
        self.were_missing.set(self.were_missing.get() || found.is_none());
        found
    }

    /// Whether a unit was needed and not found.
    pub(crate) fn were_missing(&self) -> bool {
        self.were_missing.get()
    }

    fn open(&'a self, path: &Path, wanted: &SplitDwarfLoad<Metered<'a>>) -> Option<Arc<Dwarf<Metered<'a>>>> {
        let file = UnitFile::split(Image::open(path).ok()?)?;
        let room = self.room.get().checked_sub(file.image.len() as u64)?;
        {
            let dwarf = file.dwarf(self.meter);
            let header = dwarf.units().next().ok()??;
            if dwarf.unit(header).ok()?.dwo_id != Some(wanted.dwo_id) {
                return None;
            }
        }
        self.room.set(room);
        self.meter.extend(file.size());
        let file = self.files.alloc(file);
        let mut dwarf = file.dwarf(self.meter);
        dwarf.make_dwo(&wanted.parent);
        Some(Arc::new(dwarf))
    }

    /// Where the compiler wrote it (under the sysroot first), then the user's directories.
    fn candidates(&self, wanted: &SplitDwarfLoad<Metered<'a>>) -> Vec<PathBuf> {
        let path = |bytes: &Metered<'a>| PathBuf::from(OsStr::from_bytes(bytes.bytes()));
        let Some(name) = wanted.path.as_ref().map(path) else {
            return Vec::new();
        };
        let built = wanted.comp_dir.as_ref().map(path).unwrap_or_default();
        let built = built.join(&name);
        let under = |root: &PathBuf| root.join(built.strip_prefix("/").unwrap_or(&built));
        let beside = |directory: &PathBuf| Some(directory.join(name.file_name()?));
        let debug_paths = self.options.debug_paths.iter().filter_map(beside);
        let sysroot = self.options.sysroot.iter().map(under);
        sysroot.chain([built.clone()]).chain(debug_paths).collect()
    }
}

/// Opens the package that belongs to a binary: `PROG.dwp`, as `dwp` and linkers name it.
pub(crate) fn open_package(binary: &Path) -> Option<PackageFile> {
    let mut path = binary.as_os_str().to_owned();
    path.push(".dwp");
    PackageFile::open(Image::open(Path::new(&path)).ok()?)
}
