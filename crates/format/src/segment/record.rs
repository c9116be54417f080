//! The fixed-size records of the sections.
//!
//! Each record has a `repr(C)` type (what the probe stores) and a `decode` (what a reader does with
//! bytes). Fields that change after publication are written with relaxed atomics by the probe.

use crate::bytes::{array_at, u16_at, u32_at, u64_at};

/// Bytes of a [`Module`].
pub(super) const MODULE_BYTES: u64 = 640;
/// Bytes of a [`Node`].
pub(super) const NODE_BYTES: u64 = 16;
/// Bytes of a [`Bucket`].
pub(super) const BUCKET_BYTES: u64 = 32;
/// Bytes of a [`Tally`].
pub(super) const TALLY_BYTES: u64 = 32;
/// Bytes of a [`Thread`].
pub(super) const THREAD_BYTES: u64 = 64;
/// Bytes of a [`LiveBlock`].
pub(super) const LIVE_BYTES: u64 = 16;
/// Bytes of a [`Mark`].
pub(super) const MARK_BYTES: u64 = 64;

const _: () = assert!(size_of::<Module>() as u64 == MODULE_BYTES);
const _: () = assert!(size_of::<Node>() as u64 == NODE_BYTES);
const _: () = assert!(size_of::<Bucket>() as u64 == BUCKET_BYTES);
const _: () = assert!(size_of::<Tally>() as u64 == TALLY_BYTES);
const _: () = assert!(size_of::<Thread>() as u64 == THREAD_BYTES);
const _: () = assert!(size_of::<LiveBlock>() as u64 == LIVE_BYTES);
const _: () = assert!(size_of::<Mark>() as u64 == MARK_BYTES);

/// One executable mapping of a binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Module {
    /// First address of the executable mapping.
    pub start: u64,
    /// One past its last address.
    pub end: u64,
    /// File offset that `start` maps.
    pub file_offset: u64,
    /// Address in the process minus address in the file.
    pub bias: u64,
    /// Module generation at which it was first seen; a reused address gets a new record.
    pub generation: u32,
    /// Bytes of `build_id` in use.
    pub build_id_len: u32,
    /// GNU build-id.
    pub build_id: [u8; 32],
    /// Path, NUL-padded; cut from the left when longer.
    pub path: [u8; 568],
}

impl Module {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            start: u64_at(bytes, 0)?,
            end: u64_at(bytes, 8)?,
            file_offset: u64_at(bytes, 16)?,
            bias: u64_at(bytes, 24)?,
            generation: u32_at(bytes, 32)?,
            build_id_len: u32_at(bytes, 36)?,
            build_id: array_at(bytes, 40)?,
            path: array_at(bytes, 72)?,
        })
    }
}

/// A stack: a place, called from `parent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Node {
    /// See [`NodePlace`] for what it encodes.
    pub place: u64,
    /// The caller's node; always smaller than this node's own number, 0 at the outermost frame.
    pub parent: u32,
    /// Record number of the module plus 1; 0 when unknown.
    pub module: u32,
}

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePlace {
    /// A return address (strip nothing; subtract 1 to look it up).
    Return(u64),
    /// An interrupted instruction: the frame below is a signal handler.
    Interrupted(u64),
    /// A frame the program declared: a string, and a line (0: none).
    Declared {
        /// Byte offset in the strings section.
        string: u32,
        /// Source line.
        line: u32,
    },
}

impl NodePlace {
    const DECLARED: u64 = 1 << 63;
    const INTERRUPTED: u64 = 1 << 62;
    const LINE_MASK: u32 = (1 << 30) - 1;

    /// The word stored in a node.
    #[must_use]
    pub fn encode(self) -> u64 {
        match self {
            NodePlace::Return(address) => address & !(Self::DECLARED | Self::INTERRUPTED),
            NodePlace::Interrupted(address) => (address & !Self::DECLARED) | Self::INTERRUPTED,
            NodePlace::Declared { string, line } => {
                Self::DECLARED | u64::from(line & Self::LINE_MASK) << 32 | u64::from(string)
            }
        }
    }

    /// The meaning of a node's word.
    #[must_use]
    pub fn decode(word: u64) -> Self {
        if word & Self::DECLARED != 0 {
            let line = (word >> 32) as u32 & Self::LINE_MASK;
            NodePlace::Declared { string: word as u32, line }
        } else if word & Self::INTERRUPTED != 0 {
            NodePlace::Interrupted(word & !Self::INTERRUPTED)
        } else {
            NodePlace::Return(word)
        }
    }
}

impl Node {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { place: u64_at(bytes, 0)?, parent: u32_at(bytes, 8)?, module: u32_at(bytes, 12)? })
    }
}

/// The call that made a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum CallKind {
    /// `malloc` and its like.
    Malloc = 0,
    /// `calloc`.
    Calloc = 1,
    /// `realloc`, `reallocarray`.
    Realloc = 2,
    /// `posix_memalign`, `aligned_alloc`, `memalign`, `valloc`, `pvalloc`.
    Aligned = 3,
    /// C++ `operator new`.
    New = 4,
}

impl CallKind {
    /// Anything unknown is [`CallKind::Malloc`].
    #[must_use]
    pub fn from_number(number: u16) -> Self {
        match number {
            1 => CallKind::Calloc,
            2 => CallKind::Realloc,
            3 => CallKind::Aligned,
            4 => CallKind::New,
            _ => CallKind::Malloc,
        }
    }
}

/// A set of blocks that are alike: same stack, same requested size, same sampling distance, same
/// period. Bytes are counts times size; estimates are counts times a weight that depends on
/// nothing but (size, rate), so no averages are ever taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Bucket {
    /// Requested size of each block.
    pub size: u64,
    /// Allocating stack.
    pub node: u32,
    /// Index in the rates section.
    pub rate: u16,
    /// A [`CallKind`].
    pub kind: u8,
    /// Slab of the thread that allocated, whoever frees; 0 for rare samples, which all threads count together.
    pub owner: u8,
    /// Period it counts for; buckets of other periods are history.
    pub period: u32,
    /// Usable minus requested bytes of the first block.
    pub waste: u32,
    /// `CLOCK_MONOTONIC` milliseconds since start of the probe when it was made.
    pub born_ms: u32,
    /// Bytes that each block stands for in [`super::Counter::LiveBytes`]; the maximum means that many or more.
    /// Reports compute their estimates from size and rate.
    pub stands_for: u32,
}

impl Bucket {
    /// The period of buckets that events of the log refer to: nothing is counted in the segment for them.
    pub const LOGGED: u32 = u32::MAX;

    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            size: u64_at(bytes, 0)?,
            node: u32_at(bytes, 8)?,
            rate: u16_at(bytes, 12)?,
            kind: *bytes.get(14)?,
            owner: *bytes.get(15)?,
            period: u32_at(bytes, 16)?,
            waste: u32_at(bytes, 20)?,
            born_ms: u32_at(bytes, 24)?,
            stands_for: u32_at(bytes, 28)?,
        })
    }
}

/// What one slab counted for one bucket. A reader sums over slabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Tally {
    /// Blocks allocated.
    pub allocs: u64,
    /// Blocks freed (by this slab's thread, whoever allocated them).
    pub frees: u64,
    /// Highest `allocs - frees` of this slab.
    pub peak: u64,
    /// Bytes added over the old block by `realloc`s that ended in this bucket.
    pub grown_bytes: u64,
}

impl Tally {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            allocs: u64_at(bytes, 0)?,
            frees: u64_at(bytes, 8)?,
            peak: u64_at(bytes, 16)?,
            grown_bytes: u64_at(bytes, 24)?,
        })
    }
}

/// Whether a thread still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ThreadState {
    /// Runs.
    Live = 1,
    /// Ended.
    Ended = 2,
}

/// A thread of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Thread {
    /// Kernel thread id.
    pub tid: u32,
    /// A [`ThreadState`].
    pub state: u32,
    /// Slab that holds its tallies; slab 0 is shared.
    pub slab: u32,
    /// 1 when the program gave the name, 0 when it is the system's.
    pub named: u32,
    /// `CLOCK_MONOTONIC` milliseconds since start of the probe when it was first seen.
    pub born_ms: u64,
    /// The same when it ended; 0 while it runs.
    pub ended_ms: u64,
    /// Name, NUL-padded.
    pub name: [u8; 32],
}

impl Thread {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            tid: u32_at(bytes, 0)?,
            state: u32_at(bytes, 4)?,
            slab: u32_at(bytes, 8)?,
            named: u32_at(bytes, 12)?,
            born_ms: u64_at(bytes, 16)?,
            ended_ms: u64_at(bytes, 24)?,
            name: array_at(bytes, 32)?,
        })
    }
}

/// A live block in the hash index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct LiveBlock {
    /// Address; 0: free, 1: being written.
    pub address: u64,
    /// Its bucket.
    pub bucket: u32,
    /// `CLOCK_MONOTONIC` milliseconds since start of the probe when it was allocated.
    pub born_ms: u32,
}

impl LiveBlock {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { address: u64_at(bytes, 0)?, bucket: u32_at(bytes, 8)?, born_ms: u32_at(bytes, 12)? })
    }
}

/// A named moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Mark {
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub time_ns: u64,
    /// Name, NUL-padded.
    pub name: [u8; 56],
}

impl Mark {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { time_ns: u64_at(bytes, 0)?, name: array_at(bytes, 8)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip() {
        for place in [
            NodePlace::Return(0x7fff_1234_5678),
            NodePlace::Interrupted(0x55),
            NodePlace::Declared { string: 77, line: 1234 },
        ] {
            assert_eq!(NodePlace::decode(place.encode()), place);
        }
    }

    #[test]
    fn short_records_are_refused() {
        for len in 0..16 {
            assert_eq!(Node::decode(&[0; 16][..len]), None);
        }
        assert!(Module::decode(&[0; 640]).is_some());
    }
}
