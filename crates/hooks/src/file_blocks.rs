//! A file that is read in blocks. Names of symbols are slices of blocks: [`ReadCache`] alone would
//! read and keep each name by itself, 150 000 for Node.js.

use std::fs::File;
use std::ops::Range;

use memchr::memchr;
use object::read::elf::ElfFile64;
use object::read::{ReadCache, ReadRef};

/// Bytes that are read at once for a name.
const BLOCK_BYTES: u64 = 64 << 10;

/// A parsed ELF file.
pub(crate) type Elf<'data, R> = ElfFile64<'data, object::Endianness, R>;

/// Blocks of a file, each read once.
#[derive(Debug)]
pub(crate) struct FileBlocks {
    blocks: ReadCache<File>,
}

impl FileBlocks {
    pub(crate) fn new(file: File) -> Self {
        Self { blocks: ReadCache::new(file) }
    }

    /// The name at the start of a range, when one block has all of it.
    fn name_in_block(&self, range: &Range<u64>, delimiter: u8) -> Option<&[u8]> {
        let start = range.start - range.start % BLOCK_BYTES;
        let size = ReadRef::len(self).ok()?.checked_sub(start)?.min(BLOCK_BYTES);
        let block = self.read_bytes_at(start, size).ok()?;
        let rest = block.get(usize::try_from(range.start - start).ok()?..)?;
        let name = &rest[..memchr(delimiter, rest)?];
        (range.start + (name.len() as u64) < range.end).then_some(name)
    }
}

impl<'a> ReadRef<'a> for &'a FileBlocks {
    fn len(self) -> Result<u64, ()> {
        ReadRef::len(&self.blocks)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.blocks.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        match self.name_in_block(&range, delimiter) {
            Some(name) => Ok(name),
            None => self.blocks.read_bytes_at_until(range, delimiter),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Names at the start, across the boundary of two blocks, and at the end.
    #[test]
    fn names_are_those_of_the_file() {
        let path = std::env::temp_dir().join(format!("heapwise-file-blocks-{}", std::process::id()));
        let boundary = BLOCK_BYTES as usize;
        let mut bytes = vec![b'x'; 2 * boundary];
        for end in [3, boundary - 4, boundary + 4, boundary + 9] {
            bytes[end] = 0;
        }
        fs::write(&path, &bytes).unwrap();
        let file = FileBlocks::new(File::open(&path).unwrap());
        fs::remove_file(&path).unwrap();
        let whole = &bytes[..];
        let end = bytes.len();
        for start in [0, 3, 4, boundary - 4, boundary - 3, boundary, boundary + 4, boundary + 5, end, end + 1]
        {
            for end in [start + 2, start + 8, end] {
                let range = start as u64..end as u64;
                let expected = whole.read_bytes_at_until(range.clone(), 0);
                assert_eq!((&file).read_bytes_at_until(range.clone(), 0), expected, "{range:?}");
            }
        }
    }
}
