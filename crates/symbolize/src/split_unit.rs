//! Split DWARF: units whose debug information was left in a `.dwo`, or gathered in a `.dwp`.

use std::{
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
    debug_file::{PackageFile, Slice, UnitFile},
    image::Image,
};

/// Finds split units by the id the skeleton states, and keeps their files while a lookup borrows.
pub(crate) struct SplitUnits<'a> {
    files: Arena<UnitFile>,
    package: Option<DwarfPackage<Slice<'a>>>,
    options: &'a Options,
}

impl<'a> SplitUnits<'a> {
    pub(crate) fn new(package: Option<&'a PackageFile>, options: &'a Options) -> Self {
        Self { files: Arena::new(), package: package.and_then(PackageFile::package), options }
    }

    /// The unit a lookup asks for; `None` leaves the skeleton's own lines.
    pub(crate) fn load(&'a self, wanted: &SplitDwarfLoad<Slice<'a>>) -> Option<Arc<Dwarf<Slice<'a>>>> {
        let packed = self.package.as_ref();
        let packed = packed.and_then(|it| it.find_cu(wanted.dwo_id, &wanted.parent).ok()?);
        if let Some(unit) = packed {
            return Some(Arc::new(unit));
        }
        self.candidates(wanted).into_iter().find_map(|path| self.open(&path, wanted))
    }

    fn open(&'a self, path: &Path, wanted: &SplitDwarfLoad<Slice<'a>>) -> Option<Arc<Dwarf<Slice<'a>>>> {
        let file = UnitFile::split(Image::open(path).ok()?)?;
        {
            let dwarf = file.dwarf();
            let header = dwarf.units().next().ok()??;
            if dwarf.unit(header).ok()?.dwo_id != Some(wanted.dwo_id) {
                return None;
            }
        }
        let mut dwarf = self.files.alloc(file).dwarf();
        dwarf.make_dwo(&wanted.parent);
        Some(Arc::new(dwarf))
    }

    /// Where the compiler wrote it (under the sysroot first), then the user's directories.
    fn candidates(&self, wanted: &SplitDwarfLoad<Slice<'a>>) -> Vec<PathBuf> {
        let path = |bytes: &Slice<'a>| PathBuf::from(OsStr::from_bytes(bytes.slice()));
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
