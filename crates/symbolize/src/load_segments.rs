//! Program headers: from a position in the file to the address the binary states for it.

use object::{Object, ObjectSegment};

use crate::{FileOffset, Svma, elf::Elf};

/// Mappings start at pages, segments need not; 4 KiB is the smallest page of any target, and
/// linkers keep offset and address equal modulo the largest.
const PAGE: u64 = 4096;

/// The loaded segments of a binary, executable ones first: the last page of one segment and the
/// first of the next often share file bytes, and lookups are about code.
#[derive(Debug)]
pub(crate) struct LoadSegments(Vec<LoadSegment>);

#[derive(Debug)]
struct LoadSegment {
    is_code: bool,
    /// Position and size in the file.
    offset: u64,
    file_bytes: u64,
    /// Address and size in memory.
    address: u64,
    memory_bytes: u64,
}

impl LoadSegments {
    pub(crate) fn new(elf: &Elf<'_>) -> Self {
        let mut segments: Vec<_> = elf
            .file
            .segments()
            .map(|segment| {
                let (offset, file_bytes) = segment.file_range();
                LoadSegment {
                    is_code: segment.permissions().executable(),
                    offset,
                    file_bytes,
                    address: segment.address(),
                    memory_bytes: segment.size(),
                }
            })
            .collect();
        segments.sort_by_key(|segment| !segment.is_code);
        Self(segments)
    }

    /// Address of a file offset. `mapped_from` is the offset at which the recorded mapping begins.
    pub(crate) fn svma_of(&self, offset: FileOffset, mapped_from: FileOffset) -> Option<Svma> {
        let by_offset = self.0.iter().find_map(|segment| {
            let inside = offset.0.checked_sub(segment.offset)?;
            (inside < segment.file_bytes).then(|| Svma(segment.address.wrapping_add(inside)))
        });
        by_offset.or_else(|| self.svma_by_mapping(offset, mapped_from))
    }

    /// The inverse, for code.
    pub(crate) fn offset_of(&self, address: Svma) -> Option<FileOffset> {
        self.0.iter().find_map(|segment| {
            let inside = address.0.checked_sub(segment.address)?;
            (inside < segment.file_bytes).then(|| FileOffset(segment.offset.wrapping_add(inside)))
        })
    }

    /// Whether this is the program itself, not a debug file that replaces it.
    pub(crate) fn have_contents(&self) -> bool {
        self.0.iter().any(|segment| segment.is_code && segment.file_bytes > 0)
    }

    /// For a debug file that replaces its lost binary: its segments have addresses but no
    /// contents, hence no offsets. The mapping then begins at the page of the one executable
    /// segment.
    fn svma_by_mapping(&self, offset: FileOffset, mapped_from: FileOffset) -> Option<Svma> {
        let mut code = self.0.iter().filter(|segment| segment.is_code);
        let (Some(segment), None) = (code.next(), code.next()) else {
            return None;
        };
        let has_contents = segment.file_bytes > 0;
        let start = segment.address & !(PAGE - 1);
        let svma = start.checked_add(offset.0.checked_sub(mapped_from.0)?)?;
        let inside = svma.checked_sub(segment.address)? < segment.memory_bytes;
        (inside && !has_contents).then_some(Svma(svma))
    }
}
