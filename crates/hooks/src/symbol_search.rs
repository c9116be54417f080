//! Whether a file defines a function by which an allocator is known. Most files define none, and
//! then their symbols need not be read: Node.js has 180 000.

use std::fs::File;
use std::ops::RangeInclusive;

use heapwise_format::bytes::{u16_at, u32_at};
use memchr::{memmem, memrchr};
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};

use crate::file_blocks::FileBlocks;
use crate::function::TCMALLOC_PREFIX;
use crate::pieces;

/// Names by which [`crate::family::families`] knows an allocator. [`TCMALLOC_PREFIX`] may be before
/// the first.
const NAMES: [&str; 3] = ["malloc", "mi_free", "tc_free"];
/// A name of jemalloc, behind any prefix.
const PREFIXED: &str = "sdallocx";
/// Most bytes of such a prefix.
const MOST_PREFIX: usize = 256;
/// A file with more names is not searched further.
const MOST_NAMES: usize = 1024;
/// Number of no section: the symbol is imported.
const UNDEFINED: u16 = 0;
/// Bytes of a symbol.
const SYMBOL_BYTES: usize = size_of::<elf::Sym64<Endianness>>();
const _: () = assert!(pieces::PIECE_BYTES.is_multiple_of(SYMBOL_BYTES));

/// What the symbol tables of a file have.
pub(crate) struct Found {
    /// `.symtab` is there.
    pub(crate) has_full_table: bool,
    /// Symbols may define an allocator's functions. False is certain.
    pub(crate) may_define: bool,
}

/// Searches the symbol tables of a file; `None` when it is not a 64-bit ELF file.
pub(crate) fn search(file: &File) -> Option<Found> {
    let blocks = FileBlocks::new(file.try_clone().ok()?);
    let header = elf::FileHeader64::<Endianness>::parse(&blocks).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.section_headers(endian, &blocks).ok()?;
    let mut found = Found { has_full_table: false, may_define: endian != Endianness::Little };
    for section in sections {
        let kind = section.sh_type(endian);
        let is_full = kind == elf::SHT_SYMTAB;
        if !is_full && kind != elf::SHT_DYNSYM {
            continue;
        }
        let range = |section: &elf::SectionHeader64<_>| (section.sh_offset(endian), section.sh_size(endian));
        let symbols = range(section);
        found.has_full_table |= is_full && symbols.1 > SYMBOL_BYTES as u64;
        let strings = sections.get(section.sh_link(endian) as usize).map(range).unwrap_or_default();
        found.may_define = found.may_define || is_any_defined(file, symbols, strings);
    }
    Some(found)
}

/// Whether a symbol with one of the names is defined; both tables as offset and size.
fn is_any_defined(file: &File, symbols: (u64, u64), strings: (u64, u64)) -> bool {
    let Some(names) = names(file, strings) else { return true };
    let mut is_defined = false;
    pieces::each(file, symbols, 0, |piece, _| {
        let mut symbols = piece.chunks_exact(SYMBOL_BYTES);
        is_defined = symbols.any(|symbol| {
            let (name, section) = (u32_at(symbol, 0).unwrap_or(0), u16_at(symbol, 6).unwrap_or(0));
            section != UNDEFINED && names.iter().any(|starts| starts.contains(&u64::from(name)))
        });
        !is_defined && !names.is_empty()
    });
    is_defined
}

/// Where names of allocators may begin in a string table: a name may be the end of a longer one.
/// `None` when there are too many.
fn names(file: &File, strings: (u64, u64)) -> Option<Vec<RangeInclusive<u64>>> {
    let (names, prefixed) = (NAMES.map(memmem::Finder::new), memmem::Finder::new(PREFIXED));
    let mut found = Vec::new();
    pieces::each(file, strings, MOST_PREFIX, |piece, offset| {
        // A version may follow.
        let is_whole = |end: usize| matches!(piece.get(end), None | Some(0 | b'@'));
        let mut note = |first: usize, at: usize, length: usize| {
            if is_whole(at + length) {
                found.push(offset + first as u64..=offset + at as u64);
            }
        };
        for name in &names {
            for at in name.find_iter(piece) {
                let is_prefixed = piece[..at].ends_with(TCMALLOC_PREFIX.as_bytes());
                let first = if is_prefixed { at - TCMALLOC_PREFIX.len() } else { at };
                note(first, at, name.needle().len());
            }
        }
        for at in prefixed.find_iter(piece) {
            note(memrchr(0, &piece[..at]).map_or(0, |zero| zero + 1), at, PREFIXED.len());
        }
        found.len() <= MOST_NAMES
    });
    (found.len() <= MOST_NAMES).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::{fs, process};

    use super::*;

    /// A file with these bytes, removed when dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: &[u8]) -> Scratch {
            let name = format!("heapwise-symbol-search-{name}-{}", process::id());
            let path = std::env::temp_dir().join(name);
            fs::write(&path, bytes).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    /// Whether one symbol with the name at `at` of a string table, in this section, is found.
    fn is_found(name: &str, strings: &[u8], at: usize, section: u16) -> bool {
        let mut bytes = vec![0; 2 * SYMBOL_BYTES];
        bytes[SYMBOL_BYTES..SYMBOL_BYTES + 4].copy_from_slice(&(at as u32).to_le_bytes());
        bytes[SYMBOL_BYTES + 6..SYMBOL_BYTES + 8].copy_from_slice(&section.to_le_bytes());
        let symbols = bytes.len() as u64;
        bytes.extend_from_slice(strings);
        let scratch = Scratch::new(name, &bytes);
        let file = File::open(&scratch.0).unwrap();
        is_any_defined(&file, (0, symbols), (symbols, strings.len() as u64))
    }

    #[test]
    fn names_are_found_by_their_ends() {
        let check = |strings: &[u8], at: usize| is_found("ends", strings, at, 1);
        let imported = |strings: &[u8], at: usize| is_found("imported", strings, at, 0);
        for strings in [&b"\0malloc\0"[..], b"\0malloc@@V1\0", b"\0tc_malloc\0", b"\0mi_free\0", b"\0tc_free"]
        {
            assert!(check(strings, 1), "{}", String::from_utf8_lossy(strings));
            assert!(!imported(strings, 1));
        }
        for strings in [&b"\0xmalloc\0"[..], b"\0malloc_trim\0", b"\0free\0", b"\0my_tc_free\0", b""] {
            assert!(!check(strings, 1), "{}", String::from_utf8_lossy(strings));
        }
        // A linker may store one name as the end of another.
        assert!(check(b"\0xmalloc\0", 2) && check(b"\0my_tc_free\0", 4) && check(b"\0_rjem_sdallocx\0", 1));
        assert!(check(b"\0_rjem_sdallocx\0", 7) && !check(b"\0a\0je_sdallocx\0", 1));
    }

    #[test]
    fn names_are_found_across_pieces() {
        let name = b"je_sdallocx\0";
        for at in pieces::PIECE_BYTES - 20..pieces::PIECE_BYTES + 4 {
            let mut strings = vec![b'x'; 2 * pieces::PIECE_BYTES];
            strings[at - 1] = 0;
            strings[at..at + name.len()].copy_from_slice(name);
            assert!(is_found("pieces", &strings, at, 1), "at {at}");
            assert!(!is_found("pieces", &strings, 7, 1), "before {at}");
        }
    }

    #[test]
    fn too_many_names_are_not_searched() {
        assert!(is_found("many", &b"malloc\0".repeat(MOST_NAMES + 1), 1, 1));
    }
}
