//! Allocators that are part of an executable: calls of their functions do not go through the
//! dynamic linker, so a preloaded probe does not see them.

use std::path::Path;

use heapwise_profile::{Began, Profile};
use object::{Object as _, ObjectSymbol as _};

use crate::{elf::Elf, image::Image};

/// Functions that only an allocator defines, with the prefixes in use: jemalloc, its Rust crate,
/// tcmalloc, mimalloc.
const FUNCTIONS: [&[u8]; 6] =
    [b"mallocx", b"je_malloc", b"_rjem_malloc", b"_rjem_mallocx", b"tc_malloc", b"mi_malloc"];

/// Notes an allocator inside the executable of a profile that the probe recorded.
pub(crate) fn note(profile: &mut Profile) {
    if profile.meta.recorded.began == Began::Unknown || !profile.meta.recorded.own_allocator.is_empty() {
        return;
    }
    if let Some(function) = find(Path::new(&profile.meta.program), profile) {
        profile.meta.recorded.own_allocator = function;
    }
}

/// A function of an allocator that the file defines; `None` for another file than the recorded one.
fn find(path: &Path, profile: &Profile) -> Option<String> {
    let recorded = profile.modules.iter().find(|module| Path::new(&module.path) == path)?;
    let image = Image::open(path).ok()?;
    let elf = Elf::parse(&image).ok()?;
    if elf.build_id() != recorded.build_id {
        return None;
    }
    let file = object::File::parse(&*image).ok()?;
    let is_allocator = |name: &[u8]| FUNCTIONS.contains(&name);
    let mut symbols = file.dynamic_symbols().chain(file.symbols());
    let found =
        symbols.find(|symbol| symbol.is_definition() && symbol.name_bytes().is_ok_and(is_allocator))?;
    found.name().ok().map(str::to_owned)
}
