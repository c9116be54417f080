//! The two numbers a place in a binary can be named by, kept apart by type.

/// A position in a binary's file: a recorded mapping leads to it, independent of the load address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileOffset(pub u64);

/// An address as the binary itself states it (program headers, symbols, DWARF): `svma` in the
/// words of samply. Equal to the process address only in a non-PIE program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Svma(pub u64);
