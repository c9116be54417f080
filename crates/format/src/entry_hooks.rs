//! Entry hooks: what a controller reads and writes in the memory of a process with the probe to
//! have functions hooked at their entry.
//!
//! The probe exports [`TABLE_SYMBOL`], a header of words ([`TableWord`]) that has the addresses of
//! everything else: cells (one per hooked function), islands (pieces of generated code, one per
//! binary), code ranges of allocators, and patches (the bytes that were replaced, so that any later
//! controller can restore them).

/// Name of the header.
pub const TABLE_SYMBOL: &str = "heapwise_entry_hooks";
/// First word of the header.
pub const TABLE_MAGIC: u64 = u64::from_le_bytes(*b"hwhooks2");

/// Words of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum TableWord {
    /// [`TABLE_MAGIC`].
    Magic,
    /// Address of the stub that islands jump to, with a cell's address.
    Stub,
    /// Address of the page filter.
    Filter,
    /// Address of [`MOST_CELLS`] cells.
    Cells,
    /// Address of [`MOST_ISLANDS`] islands.
    Islands,
    /// Address of [`MOST_RANGES`] ranges.
    Ranges,
    /// Address of [`MOST_PATCHES`] patches.
    Patches,
    /// Address of the jump table of hooks that the dynamic linker leads to.
    Slots,
    /// Address of the names of those hooks: pointers to text, as many as [`TableWord::SlotCount`].
    SlotNames,
    /// Number of those hooks.
    SlotCount,
    /// Address of the [`State`] words.
    State,
    /// Address of [`MOST_FAMILIES`] families.
    Families,
    /// Number of words.
    Count,
}

/// Words that change while hooks are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum StateWord {
    /// Functions hooked at their entry.
    Hooked,
    /// 1 when blocks of other allocators than the one underneath are recorded.
    ForeignBlocks,
    /// Two bytes, as in an island: the hook mode in force.
    Modes,
    /// Number of words.
    Count,
}

/// Most hooked functions.
pub const MOST_CELLS: usize = 256;
/// Most binaries with hooked functions.
pub const MOST_ISLANDS: usize = 16;
/// Most ranges of allocators' code.
pub const MOST_RANGES: usize = 64;
/// Most replaced pieces of code.
pub const MOST_PATCHES: usize = 320;

/// Bytes of a cell: the address of the function's moved beginning, its [`Shape`], the number of its
/// family, its [`Alignment`].
pub const CELL_BYTES: usize = 32;
/// Offset of the shape in a cell.
pub const CELL_SHAPE: usize = 8;
/// Offset of the number of the family in a cell.
pub const CELL_FAMILY: usize = 16;
/// Offset of the alignment in a cell.
pub const CELL_ALIGNMENT: usize = 24;
/// Most allocators, with [`LINKED_FAMILY`] and [`UNKNOWN_FAMILY`].
pub const MOST_FAMILIES: usize = 8;
/// The allocator that the dynamic linker leads to; its row is not used.
pub const LINKED_FAMILY: usize = 0;
/// An allocator whose sizes are not known, and every one that has no row of its own. Its row is
/// zero.
pub const UNKNOWN_FAMILY: usize = MOST_FAMILIES - 1;
/// Bytes of a family, in the order of [`FamilyWord`].
pub const FAMILY_BYTES: usize = 8 * FamilyWord::Count as usize;
/// Bytes of a row of islands: its address and its length.
pub const ISLAND_BYTES: usize = 16;
/// Bytes of a range: first address and length.
pub const RANGE_BYTES: usize = 16;
/// Bytes of a jump table entry: the vector, then the real function.
pub const SLOT_BYTES: usize = 16;
/// Offset of the real function in a jump table entry.
pub const SLOT_REAL: usize = 8;

/// First bytes of an island, which its code reads and the probe writes: 0 while only a countdown
/// is kept, 1 when every call goes to the probe.
pub const ISLAND_ALLOCATES: usize = 0;
/// As [`ISLAND_ALLOCATES`], for calls that free or resize.
pub const ISLAND_RELEASES: usize = 1;

/// Bytes of the page filter by page of an address; those by granule follow.
pub const FILTER_PAGES: usize = 1 << 20;
/// Bytes of the page filter by 16 bytes of an address, which is first added to itself, shifted
/// right by [`FILTER_FOLD`]: the arenas of threads start at multiples of 64 MiB, and the blocks of
/// two threads would share bytes.
pub const FILTER_GRANULES: usize = 1 << 20;
/// See [`FILTER_GRANULES`].
pub const FILTER_FOLD: u8 = 6;

/// Words of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum FamilyWord {
    /// Address of the function that returns the usable size of a block; 0 when there is none.
    UsableSize,
    /// Address of the size classes, ascending words; 0 when there are none.
    Classes,
    /// Number of the size classes.
    ClassCount,
    /// Largest alignment that does not change the size class of a block which is not smaller.
    NaturalAlignment,
    /// Number of words.
    Count,
}

/// Where a call has the size of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Size {
    /// Argument of this number, from 0.
    Argument(u8),
    /// Product of the argument of this number and the next one.
    Product(u8),
    /// The length of the text that the call returns, with its final zero.
    Text,
}

/// What a call does with blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Returns a new block.
    Allocate(Size),
    /// Stores a new block where argument 0 points to, and returns 0.
    AllocateTo(Size),
    /// Replaces argument 0 by a block of another size, which it returns.
    Resize(Size),
    /// As [`Shape::Resize`], of argument 1: argument 0 is a heap.
    ResizeInHeap(Size),
    /// Changes the size of argument 0 in place and returns the usable size (`xallocx`).
    ResizeInPlace,
    /// Frees argument 0.
    Release,
    /// Returns the usable size of argument 0.
    UsableSize,
}

/// Bit of a shape's word: the probe acts before the call.
pub const BEFORE: u64 = 1;
/// Bit of a shape's word: the probe acts after the call.
pub const AFTER: u64 = 2;

impl Shape {
    /// As a cell has it: the bits [`BEFORE`] and [`AFTER`], then kind, size and number in a byte
    /// each.
    #[must_use]
    pub const fn word(self) -> u64 {
        let (phases, kind, size) = match self {
            Shape::Allocate(size) => (AFTER, 0, size),
            Shape::AllocateTo(size) => (AFTER, 1, size),
            Shape::Resize(size) => (BEFORE | AFTER, 2, size),
            Shape::ResizeInPlace => (BEFORE | AFTER, 3, Size::Argument(1)),
            Shape::Release => (BEFORE, 4, Size::Argument(0)),
            Shape::UsableSize => (0, 5, Size::Argument(0)),
            Shape::ResizeInHeap(size) => (BEFORE | AFTER, 6, size),
        };
        let (of, number) = match size {
            Size::Argument(number) => (0, number),
            Size::Product(number) => (1, number),
            Size::Text => (2, 0),
        };
        phases | kind << 8 | of << 16 | (number as u64) << 24
    }

    /// The inverse of [`Shape::word`]; anything unknown does nothing.
    #[must_use]
    pub fn from_word(word: u64) -> Shape {
        let number = (word >> 24) as u8;
        let size = match word >> 16 & 0xff {
            0 => Size::Argument(number),
            1 => Size::Product(number),
            _ => Size::Text,
        };
        match word >> 8 & 0xff {
            0 => Shape::Allocate(size),
            1 => Shape::AllocateTo(size),
            2 => Shape::Resize(size),
            3 => Shape::ResizeInPlace,
            4 => Shape::Release,
            6 => Shape::ResizeInHeap(size),
            _ => Shape::UsableSize,
        }
    }

    /// The size of the block that the call makes, if it makes one.
    #[must_use]
    pub const fn size(self) -> Option<Size> {
        match self {
            Shape::Allocate(size)
            | Shape::AllocateTo(size)
            | Shape::Resize(size)
            | Shape::ResizeInHeap(size) => Some(size),
            Shape::ResizeInPlace | Shape::Release | Shape::UsableSize => None,
        }
    }
}

/// Where a call has the alignment of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alignment {
    /// It has none.
    None,
    /// Argument of this number, from 0.
    Argument(u8),
    /// The low bits of this argument are the binary logarithm (`mallocx`).
    Flags(u8),
    /// A page, or one with an offset.
    Other,
}

impl Alignment {
    /// As a cell has it: the kind, then the number of the argument in a byte each.
    #[must_use]
    pub const fn word(self) -> u64 {
        match self {
            Alignment::None => 0,
            Alignment::Argument(number) => 1 | (number as u64) << 8,
            Alignment::Flags(number) => 2 | (number as u64) << 8,
            Alignment::Other => 3,
        }
    }

    /// The inverse of [`Alignment::word`]; anything unknown is [`Alignment::Other`].
    #[must_use]
    pub const fn from_word(word: u64) -> Alignment {
        let number = (word >> 8) as u8;
        match word & 0xff {
            0 => Alignment::None,
            1 => Alignment::Argument(number),
            2 => Alignment::Flags(number),
            _ => Alignment::Other,
        }
    }
}

/// A piece of code that was replaced. The probe keeps it and does not look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// Where.
    pub address: u64,
    /// Bytes replaced.
    pub len: usize,
    /// What was there.
    pub original: [u8; Patch::MOST],
    /// What is there now.
    pub replacement: [u8; Patch::MOST],
}

impl Patch {
    /// Most bytes of a patch.
    pub const MOST: usize = 16;
    /// Bytes of a stored patch.
    pub const BYTES: usize = 16 + 2 * Patch::MOST;

    /// As it is stored.
    #[must_use]
    pub fn bytes(&self) -> [u8; Patch::BYTES] {
        let mut bytes = [0; Patch::BYTES];
        let words = [self.address.to_le_bytes(), (self.len as u64).to_le_bytes()];
        let all = words.iter().flatten().chain(&self.original).chain(&self.replacement);
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// The inverse of [`Patch::bytes`]; `None` for an empty or damaged one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Patch> {
        let address = crate::bytes::u64_at(bytes, 0).filter(|address| *address != 0)?;
        let len = crate::bytes::u64_at(bytes, 8)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= Patch::MOST)?;
        let piece = |at: usize| bytes.get(at..at + Patch::MOST)?.try_into().ok();
        Some(Patch { address, len, original: piece(16)?, replacement: piece(16 + Patch::MOST)? })
    }
}

/// Abstract name of the socket by which programs request hooks from the process that started them:
/// this text, the pid of that process, a hyphen, its start time.
///
/// A connection is the request. The launcher sends the memory to map ([`MAP_REQUEST_WORDS`]), the
/// program answers with the address that it got (a word, 0 for none), and the end of the connection
/// is the end of the request. Meanwhile the program does nothing else.
pub const REQUEST_SOCKET: &str = "heapwise-hooks-";
/// Words of a message to map memory: address, length, bytes at its beginning that are data. The
/// rest is code.
pub const MAP_REQUEST_WORDS: usize = 3;
/// Time after which a program that requested hooks goes on without them.
pub const REQUEST_TIMEOUT_MS: u32 = 5000;

/// First bytes of the settings of an injected probe, which the controller writes into the library's
/// bytes before the process loads it.
pub const INJECTED_MAGIC: [u8; 16] = *b"heapwise-inject\0";
/// Bytes of each text in the settings: the options, the directory of segments, the path of the
/// library, each ended by a zero byte. The library as built has empty texts; an injected one has
/// options.
pub const INJECTED_TEXT: usize = 2048;
/// Bytes of the settings.
pub const INJECTED_BYTES: usize = INJECTED_MAGIC.len() + 3 * INJECTED_TEXT;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_come_back() {
        let sizes = [Size::Argument(0), Size::Argument(2), Size::Product(0), Size::Product(1), Size::Text];
        let of_size = sizes.map(|size| {
            [Shape::Allocate(size), Shape::AllocateTo(size), Shape::Resize(size), Shape::ResizeInHeap(size)]
        });
        let others = [Shape::ResizeInPlace, Shape::Release, Shape::UsableSize];
        for shape in of_size.into_iter().flatten().chain(others) {
            assert_eq!(Shape::from_word(shape.word()), shape);
        }
    }

    #[test]
    fn alignments_come_back() {
        for alignment in [
            Alignment::None,
            Alignment::Argument(0),
            Alignment::Argument(3),
            Alignment::Flags(1),
            Alignment::Other,
        ] {
            assert_eq!(Alignment::from_word(alignment.word()), alignment);
        }
    }

    #[test]
    fn patches_come_back() {
        let patch = Patch { address: 0x1234, len: 7, original: [1; 16], replacement: [2; 16] };
        assert_eq!(Patch::from_bytes(&patch.bytes()), Some(patch));
        assert_eq!(Patch::from_bytes(&[0; Patch::BYTES]), None);
        let long = Patch { len: 17, ..patch };
        assert_eq!(Patch::from_bytes(&long.bytes()), None);
    }
}
