//! A mapped binary and its identity.

use std::fmt;

/// One executable mapping of a binary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// Path as the program saw it; `[vdso]` for the vDSO.
    pub path: String,
    /// GNU build-id; empty when the binary has none or the source did not record it.
    pub build_id: BuildId,
    /// First address of the mapping in the process.
    pub start: u64,
    /// One past the last address of the mapping in the process.
    pub end: u64,
    /// File offset that `start` maps.
    pub file_offset: u64,
}

impl Module {
    /// Whether an address of the process lies in this mapping.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// File offset of an address of the process.
    #[must_use]
    pub fn file_offset_of(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.file_offset)
    }

    /// Last component of the path: what reports print.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// A GNU build-id: the identity of a binary, independent of its path.
#[derive(Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct BuildId(pub Vec<u8>);

impl BuildId {
    /// Parses lowercase or uppercase hex; `None` on anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        if !text.is_ascii() || !text.len().is_multiple_of(2) {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
        (0..text.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>().map(Self)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "BuildId({self})")
    }
}
