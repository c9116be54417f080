//! Calls that return memory to the kernel without unmapping it, or create memory without mapping
//! it: sums per stack, and the origin of each memfd.
//!
//! Both sections are hash tables of records that the probe fills in place; an empty slot is zero.

use crate::bytes::{u32_at, u64_at};

/// Bytes of a [`MemoryCall`].
pub(super) const MEMORY_CALL_BYTES: u64 = 32;
/// Bytes of a [`Memfd`].
pub(super) const MEMFD_BYTES: u64 = 16;
const _: () = assert!(size_of::<MemoryCall>() as u64 == MEMORY_CALL_BYTES);
const _: () = assert!(size_of::<Memfd>() as u64 == MEMFD_BYTES);

/// Calls of one kind from one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct MemoryCall {
    /// Node of the stack; 0 for the allocator. With `kind` it is the key of the record.
    pub node: u32,
    /// A [`CallKind`]; 0 in an empty slot.
    pub kind: u32,
    /// Calls that succeeded.
    pub count: u64,
    /// Bytes of the advised ranges, whole pages; 0 for `memfd_create`.
    pub bytes: u64,
    /// Milliseconds from the start of the process to the first call.
    pub first_ms: u32,
    /// The same, to the last call.
    pub last_ms: u32,
}

/// A recorded call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum CallKind {
    /// `madvise(MADV_DONTNEED)`: the pages are returned at once.
    DontNeed = 1,
    /// `madvise(MADV_FREE)`: the kernel takes the pages when it needs them.
    Free = 2,
    /// `madvise(MADV_REMOVE)`: the pages and the part of the file behind them are returned.
    Remove = 3,
    /// `memfd_create`.
    MemfdCreate = 4,
}

impl CallKind {
    /// All kinds, in the order of reports.
    pub const ALL: [CallKind; 4] =
        [CallKind::DontNeed, CallKind::Free, CallKind::Remove, CallKind::MemfdCreate];

    /// The kind with this number.
    #[must_use]
    pub fn from_word(word: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == word)
    }

    /// The constant or function, as the manual spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CallKind::DontNeed => "MADV_DONTNEED",
            CallKind::Free => "MADV_FREE",
            CallKind::Remove => "MADV_REMOVE",
            CallKind::MemfdCreate => "memfd_create",
        }
    }
}

impl MemoryCall {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            node: u32_at(bytes, 0)?,
            kind: u32_at(bytes, 4)?,
            count: u64_at(bytes, 8)?,
            bytes: u64_at(bytes, 16)?,
            first_ms: u32_at(bytes, 24)?,
            last_ms: u32_at(bytes, 28)?,
        })
    }
}

/// The call that created a memfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Memfd {
    /// Inode of the file, which the kernel lists with each mapping of it; 0 in an empty slot.
    pub inode: u64,
    /// Node of the stack; 0 for the allocator.
    pub node: u32,
    /// Milliseconds from the start of the process to the call.
    pub time_ms: u32,
}

impl Memfd {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { inode: u64_at(bytes, 0)?, node: u32_at(bytes, 8)?, time_ms: u32_at(bytes, 12)? })
    }
}
