//! Mappings of the program: an array sorted by address, without overlaps.
//!
//! The probe changes it under a lock, between two increments of
//! [`super::Counter::MappingsSequence`]: the number is odd while records move, and a reader that
//! saw it change reads again.

use crate::bytes::{u32_at, u64_at};

/// Bytes of a [`Mapping`].
pub(super) const MAPPING_BYTES: u64 = 32;
const _: () = assert!(size_of::<Mapping>() as u64 == MAPPING_BYTES);

/// A range of addresses. Neighbouring mappings of one stack and purpose are one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Node of the stack that mapped it; 0 for the allocator.
    pub node: u32,
    /// A [`Purpose`].
    pub purpose: u32,
    /// Calls whose mappings the range joins.
    pub count: u32,
    /// Milliseconds from the start of the process to the last of these calls.
    pub time_ms: u32,
}

/// What a range was mapped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Memory or a file of the program.
    Program = 1,
    /// A stack (`MAP_STACK`, `MAP_GROWSDOWN`).
    Stack = 2,
    /// Blocks of the allocator whose blocks are recorded.
    Allocator = 3,
    /// Shared memory of the program, attached by `shmat`.
    Attached = 4,
}

impl Purpose {
    /// The purpose with this number.
    #[must_use]
    pub fn from_word(word: u32) -> Option<Self> {
        [Purpose::Program, Purpose::Stack, Purpose::Allocator, Purpose::Attached]
            .into_iter()
            .find(|purpose| *purpose as u32 == word)
    }
}

impl Mapping {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            start: u64_at(bytes, 0)?,
            end: u64_at(bytes, 8)?,
            node: u32_at(bytes, 16)?,
            purpose: u32_at(bytes, 20)?,
            count: u32_at(bytes, 24)?,
            time_ms: u32_at(bytes, 28)?,
        })
    }
}
