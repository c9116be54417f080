//! `.gnu_debugdata`: the symbol table of a stripped binary, packed into it (Fedora's
//! MiniDebugInfo).

use std::{io::Read, path::Path};

use lzma_rust2::XzReader;

use crate::{elf::Elf, image::Image};

/// Most bytes it may unpack to; Chromium's is about 40 MiB.
const MAX_UNPACKED_BYTES: u64 = 256 << 20;
/// Largest dictionary accepted, KiB; `xz -9` needs 65.
const MAX_DICTIONARY_KIB: u32 = 128 << 10;

/// The packed file, if there is one and it is sound.
pub(crate) fn unpack(path: &Path, elf: &Elf<'_>) -> Option<Image> {
    let packed = elf.section(".gnu_debugdata")?;
    let mut bytes = Vec::new();
    XzReader::new_mem_limit(&*packed, false, MAX_DICTIONARY_KIB)
        .take(MAX_UNPACKED_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(Image::from_bytes(path.to_owned(), bytes))
}
