//! Texts of allocators among the constants of a binary: how an allocator without symbols is found.

use std::fs::File;

use memchr::memmem;
use object::read::ReadRef;
use object::{Object, ObjectSection};

use crate::file_blocks::Elf;
use crate::function::Allocator;
use crate::pieces;

/// Texts that only the code of an allocator has.
const TEXTS: [(&str, Allocator); 3] = [
    ("<jemalloc>: ", Allocator::Jemalloc),
    ("mimalloc: ", Allocator::Mimalloc),
    ("tcmalloc: large alloc", Allocator::Tcmalloc),
];

/// Part of each text: one search finds all of them.
const COMMON: &str = "malloc";

/// Most bytes of constants that are searched: Node.js has 45 MiB.
const MOST_CONSTANTS: u64 = 256 << 20;

/// Allocators whose texts are among the constants of a file; `bytes` is the same file.
pub(crate) fn allocators<'data, R: ReadRef<'data>>(file: &Elf<'data, R>, bytes: &File) -> Vec<Allocator> {
    let constants = file.sections().filter(|section| section.name().is_ok_and(|n| n.starts_with(".rodata")));
    let ranges = constants.filter_map(|section| section.file_range());
    let mut found = [false; TEXTS.len()];
    for (offset, size) in ranges.filter(|(_, size)| *size <= MOST_CONSTANTS) {
        search(bytes, offset, size, &mut found);
    }
    let texts = TEXTS.iter().zip(found).filter(|(_, is_found)| *is_found);
    texts.map(|((_, allocator), _)| *allocator).collect()
}

/// Searches a part of a file. Pieces overlap, so that no text is cut.
fn search(file: &File, offset: u64, size: u64, found: &mut [bool; TEXTS.len()]) {
    let overlap = TEXTS.iter().map(|(text, _)| text.len() - 1).max().unwrap_or(0);
    let common = memmem::Finder::new(COMMON);
    pieces::each(file, (offset, size), overlap, |piece, _| {
        for at in common.find_iter(piece) {
            for ((text, _), is_found) in TEXTS.iter().zip(found.iter_mut()) {
                let start = text.find(COMMON).and_then(|before| at.checked_sub(before));
                *is_found |= start.is_some_and(|start| piece[start..].starts_with(text.as_bytes()));
            }
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::pieces::PIECE_BYTES;

    /// Whether each text is found in the bytes from `offset` on.
    fn found(bytes: &[u8], offset: u64, size: u64) -> [bool; TEXTS.len()] {
        let path = std::env::temp_dir().join(format!("heapwise-texts-{}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        let mut found = [false; TEXTS.len()];
        search(&File::open(&path).unwrap(), offset, size, &mut found);
        fs::remove_file(&path).unwrap();
        found
    }

    #[test]
    fn texts_are_found_at_every_place() {
        let text = TEXTS[1].0.as_bytes();
        let len = 3 * PIECE_BYTES;
        for at in [0, 1, PIECE_BYTES - text.len(), PIECE_BYTES - 1, PIECE_BYTES, len - text.len()] {
            let mut bytes = vec![b'm'; len];
            bytes[at..at + text.len()].copy_from_slice(text);
            assert_eq!(found(&bytes, 0, len as u64), [false, true, false], "at {at}");
            assert_eq!(found(&bytes, at as u64 + 1, (len - at - 1) as u64), [false; 3], "after {at}");
            assert_eq!(found(&bytes, 0, (at + text.len() - 1) as u64), [false; 3], "before the end at {at}");
        }
        // A section that claims more than the file has.
        assert_eq!(found(text, 0, u64::MAX), [false, true, false]);
        assert_eq!(found(b"", 0, 100), [false; 3]);
    }
}
