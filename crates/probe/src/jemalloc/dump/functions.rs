//! The functions that a binary's file names.
//!
//! The file is read, not mapped: a file that is truncated meanwhile is then an error, not a
//! `SIGBUS`.

use heapwise_format::bytes::{u16_at, u32_at, u64_at};

use crate::sys::{File, Mapping};

/// Sizes of the ELF header, a section's header and a symbol.
const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
/// Kinds of sections.
const FULL_TABLE: u32 = 2;
const DYNAMIC_TABLE: u32 = 11;
/// Largest section that is read: Chromium with all its symbols has one of 200 MB.
const MOST_BYTES: u64 = 1 << 30;

/// Calls `with` for name, address and length of each function in the larger symbol table of an ELF
/// file.
pub(super) fn each_function(file: &File, mut with: impl FnMut(&[u8], u64, u64)) {
    let Some(sections) = sections(file) else { return };
    let table = |kind| find_table(file, sections.bytes(), kind);
    let Some((symbols, names)) = table(FULL_TABLE).or_else(|| table(DYNAMIC_TABLE)) else { return };
    for symbol in symbols.bytes().chunks_exact(SYMBOL_BYTES) {
        let is_function = symbol.get(4).is_some_and(|info| matches!(info & 0xf, 2 | 10));
        let (Some(name), Some(section)) = (u32_at(symbol, 0), u16_at(symbol, 6)) else { continue };
        let (Some(start), Some(len)) = (u64_at(symbol, 8), u64_at(symbol, 16)) else { continue };
        let name = names.bytes().get(name as usize..).and_then(|rest| rest.split(|byte| *byte == 0).next());
        if let Some(name) = name.filter(|_| is_function && section != 0 && len != 0) {
            with(name, start, len);
        }
    }
}

/// The headers of all sections.
fn sections(file: &File) -> Option<Mapping> {
    let header = read(file, 0, HEADER_BYTES as u64)?;
    let start = u64_at(header.bytes(), 0x28)?;
    let count = u64::from(u16_at(header.bytes(), 0x3c)?);
    read(file, start, count * SECTION_BYTES as u64)
}

/// The symbols and the names of the first section of a kind.
fn find_table(file: &File, sections: &[u8], kind: u32) -> Option<(Mapping, Mapping)> {
    let content = |section: &[u8]| read(file, u64_at(section, 0x18)?, u64_at(section, 0x20)?);
    let mut all = sections.chunks_exact(SECTION_BYTES);
    let symbols = all.clone().find(|section| u32_at(section, 4) == Some(kind))?;
    let names = all.nth(u32_at(symbols, 0x28)? as usize)?;
    Some((content(symbols)?, content(names)?))
}

/// A copy of a piece of the file, whole or not at all.
fn read(file: &File, start: u64, bytes: u64) -> Option<Mapping> {
    let mut copy = Mapping::new(Some(bytes).filter(|bytes| (1..=MOST_BYTES).contains(bytes))? as usize)?;
    file.read_exact_at(copy.bytes_mut(), start).ok()?;
    Some(copy)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::vec::Vec;

    use super::*;

    fn open(path: &Path) -> File {
        File::open_plain(&CString::new(path.as_os_str().as_bytes()).expect("a name")).expect("readable")
    }

    fn places_of_main(path: &Path) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        each_function(&open(path), |name, start, len| {
            if name == b"main" {
                found.push((start, len));
            }
        });
        found
    }

    #[test]
    fn functions_of_this_program_are_found() {
        let found = places_of_main(&std::env::current_exe().expect("a path"));
        assert!(matches!(found.as_slice(), [(1.., 1..)]), "{found:?}");
    }

    #[test]
    fn a_shortened_file_has_none() {
        let whole = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
        let path = std::env::temp_dir().join(std::format!("heapwise-shortened-{}", std::process::id()));
        for cut in [0, 10, 64, 4096, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).expect("written");
            assert_eq!(places_of_main(&path), [], "{cut}");
        }
        std::fs::remove_file(&path).expect("removed");
    }
}
