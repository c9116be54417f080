//! Texts of allocators among the constants of a binary: how an allocator without symbols is found.

use std::fs::File;
use std::os::unix::fs::FileExt;

use memchr::memmem;
use object::read::ReadRef;
use object::{Object, ObjectSection};

use crate::file_blocks::Elf;
use crate::function::Allocator;

/// Texts that only the code of an allocator has.
const TEXTS: [(&str, Allocator); 3] = [
    ("<jemalloc>: ", Allocator::Jemalloc),
    ("mimalloc: ", Allocator::Mimalloc),
    ("tcmalloc: large alloc", Allocator::Tcmalloc),
];

/// Most bytes of constants that are searched.
const MOST_CONSTANTS: u64 = 256 << 20;

/// Bytes that are searched at once: Node.js has 45 MiB of constants.
const PIECE_BYTES: usize = 256 << 10;

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
    let mut piece = vec![0; PIECE_BYTES];
    let mut done = 0;
    while done < size {
        let wanted = usize::try_from(size - done).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let read = file.read_at(&mut piece[..wanted], offset.saturating_add(done)).unwrap_or(0);
        for ((text, _), is_found) in TEXTS.iter().zip(found.iter_mut()) {
            *is_found |= memmem::find(&piece[..read], text.as_bytes()).is_some();
        }
        if read <= overlap {
            return;
        }
        done += (read - overlap) as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
