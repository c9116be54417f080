//! The fixed-size records of the sections.
//!
//! Each record has a `repr(C)` type (what the probe stores) and a `decode` (what a reader does with
//! bytes). Fields that change after publication are written with relaxed atomics by the probe.

use crate::bytes::{array_at, u16_at, u32_at, u64_at};

/// Bytes of a [`Module`].
pub(super) const MODULE_BYTES: u64 = 640;
/// Bytes of a [`Tally`]: one cache line.
pub(super) const TALLY_BYTES: u64 = 64;
/// Bytes of a [`TallyDetails`].
pub(super) const TALLY_DETAILS_BYTES: u64 = 32;
/// Bytes of a [`TallyWeights`].
pub(super) const TALLY_WEIGHTS_BYTES: u64 = 64;
/// Bytes of a [`SizeCounts`].
pub(super) const SIZE_COUNTS_BYTES: u64 = SIZE_CLASSES as u64 * 32;
/// Bytes of a [`Thread`].
pub(super) const THREAD_BYTES: u64 = 64;
/// Bytes of a [`LiveBlock`].
pub(super) const LIVE_BYTES: u64 = 32;
/// Bytes of a [`Mark`].
pub(super) const MARK_BYTES: u64 = 64;

const _: () = assert!(size_of::<Module>() as u64 == MODULE_BYTES);
const _: () = assert!(size_of::<Tally>() as u64 == TALLY_BYTES);
const _: () = assert!(size_of::<TallyDetails>() as u64 == TALLY_DETAILS_BYTES);
const _: () = assert!(size_of::<TallyWeights>() as u64 == TALLY_WEIGHTS_BYTES);
const _: () = assert!(size_of::<SizeCounts>() as u64 == SIZE_COUNTS_BYTES);
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

/// The thread number of blocks whose allocating thread has no record.
pub const NO_THREAD: u16 = u16::MAX;

/// Events of one site (a stack, at one sampling distance, in one period), on blocks that one thread
/// allocated, as counted by one thread. A thread that frees the blocks of another one counts in a
/// tally of its own, so every tally has a single writer, except those of [`NO_THREAD`], which all
/// threads update atomically. A reader adds the tallies of a site up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Tally {
    /// Allocating stack.
    pub node: u32,
    /// Index in the rates section; 0: every block was counted.
    pub rate: u16,
    /// Record of the thread that allocated the blocks, or [`NO_THREAD`].
    pub thread: u16,
    /// The epoch of its last change: [`TallyDetails::peak_bytes`] belongs to it (see
    /// [`super::Counter::PeakEpoch`]). Tallies of epochs before the period's first one
    /// ([`super::Counter::PeriodEpoch`]) are history.
    pub epoch: u32,
    /// Smallest requested size plus 1; 0: none, [`Tally::LARGE`]: in [`TallyDetails::min_size`].
    pub min_size: u16,
    /// Largest requested size plus 1; 0: none, [`Tally::LARGE`]: in [`TallyDetails::max_size`].
    pub max_size: u16,
    /// Blocks allocated: all of them, or the samples.
    pub allocs: u64,
    /// Their requested bytes.
    pub alloc_bytes: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Their requested bytes.
    pub freed_bytes: u64,
    /// Usable minus requested bytes of the blocks allocated.
    pub alloc_slack: u64,
    /// Usable minus requested bytes of the blocks freed.
    pub freed_slack: u64,
}

impl Tally {
    /// The value for sizes that do not fit into [`Tally::min_size`] and [`Tally::max_size`].
    pub const LARGE: u16 = u16::MAX;

    /// Whether it belongs to the period that began with an epoch.
    #[must_use]
    pub fn is_since(&self, first: u32) -> bool {
        self.epoch.wrapping_sub(first) as i32 >= 0
    }

    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            node: u32_at(bytes, 0)?,
            rate: u16_at(bytes, 4)?,
            thread: u16_at(bytes, 6)?,
            epoch: u32_at(bytes, 8)?,
            min_size: u16_at(bytes, 12)?,
            max_size: u16_at(bytes, 14)?,
            allocs: u64_at(bytes, 16)?,
            alloc_bytes: u64_at(bytes, 24)?,
            frees: u64_at(bytes, 32)?,
            freed_bytes: u64_at(bytes, 40)?,
            alloc_slack: u64_at(bytes, 48)?,
            freed_slack: u64_at(bytes, 56)?,
        })
    }
}

/// Data of a tally that most do not have. All zeros where nothing was written yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct TallyDetails {
    /// Smallest requested size plus 1 of those that are [`Tally::LARGE`]; 0 without such
    /// blocks, the maximum for 4 GiB and more.
    pub min_size: u32,
    /// Largest requested size of those; the maximum for 4 GiB and more.
    pub max_size: u32,
    /// Live blocks at the process's peak (estimated for samples), if [`Tally::epoch`] is that of
    /// the peak; otherwise the tally has not changed since the peak.
    pub peak_blocks: i64,
    /// Live bytes at the process's peak, under the same condition.
    pub peak_bytes: i64,
    /// Bytes added over the old block by `realloc`s that ended at this site.
    pub grown_bytes: u64,
}

impl TallyDetails {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            min_size: u32_at(bytes, 0)?,
            max_size: u32_at(bytes, 4)?,
            peak_blocks: u64_at(bytes, 8)? as i64,
            peak_bytes: u64_at(bytes, 16)? as i64,
            grown_bytes: u64_at(bytes, 24)?,
        })
    }
}

/// Sums over the samples of a sampled tally, each as the bits of an `f64`. A sample of `s` bytes at
/// mean distance `T` has probability `p = 1 - e^(-s/T)`, has the weight `w = 1/p` blocks, and adds
/// `v = (1-p)/p²` to the variance of their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct TallyWeights {
    /// Σ w of the samples allocated.
    pub alloc_blocks: u64,
    /// Σ w·s.
    pub alloc_bytes: u64,
    /// Σ v.
    pub alloc_blocks_variance: u64,
    /// Σ v·s².
    pub alloc_bytes_variance: u64,
    /// The same four sums of the samples freed.
    pub freed_blocks: u64,
    /// Σ w·s.
    pub freed_bytes: u64,
    /// Σ v.
    pub freed_blocks_variance: u64,
    /// Σ v·s².
    pub freed_bytes_variance: u64,
}

impl TallyWeights {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            alloc_blocks: u64_at(bytes, 0)?,
            alloc_bytes: u64_at(bytes, 8)?,
            alloc_blocks_variance: u64_at(bytes, 16)?,
            alloc_bytes_variance: u64_at(bytes, 24)?,
            freed_blocks: u64_at(bytes, 32)?,
            freed_bytes: u64_at(bytes, 40)?,
            freed_blocks_variance: u64_at(bytes, 48)?,
            freed_bytes_variance: u64_at(bytes, 56)?,
        })
    }
}

/// Size classes of the histogram. A class ends with the size that names it, as those of allocators
/// do: 0, 8, then by sixteens to 1 KiB (9–16, 17–32 … 1009–1024), then four for each doubling
/// (1025–1280 …).
pub const SIZE_CLASSES: usize = 218;
/// Class of the sizes behind the fine ones.
const COARSE: usize = 66;
const FINE_BYTES: u64 = 1024;

/// The class of a requested size.
#[inline(always)]
#[must_use]
pub fn size_class(size: u64) -> usize {
    if size <= FINE_BYTES {
        return size.div_ceil(16) as usize + (size > 8) as usize;
    }
    let doubling = (size - 1).ilog2();
    let quarter = (size - 1) >> (doubling - 2) & 3;
    let class = COARSE + (doubling - FINE_BYTES.ilog2()) as usize * 4 + quarter as usize;
    if class < SIZE_CLASSES { class } else { SIZE_CLASSES - 1 }
}

/// Smallest size of a class.
#[must_use]
pub fn size_class_start(class: usize) -> u64 {
    match class {
        0 | 1 => class as u64,
        2 => 9,
        3..=65 => (class as u64 - 2) * 16 + 1,
        _ => {
            let (doubling, quarter) = ((class - COARSE) / 4, (class - COARSE) as u64 % 4);
            ((4 + quarter) << (FINE_BYTES.ilog2() as usize - 2 + doubling).min(61)) + 1
        }
    }
}

/// Blocks and bytes of one size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct SizeCount {
    /// Blocks allocated (estimated in sampled mode).
    pub allocs: u64,
    /// Their requested bytes.
    pub alloc_bytes: u64,
    /// Blocks freed, by this thread.
    pub frees: u64,
    /// Their requested bytes.
    pub freed_bytes: u64,
}

/// Blocks by size, as counted by one thread in the current period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct SizeCounts {
    /// By [`size_class`].
    pub classes: [SizeCount; SIZE_CLASSES],
}

impl SizeCounts {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut classes = [SizeCount::default(); SIZE_CLASSES];
        for (class, bytes) in
            classes.iter_mut().zip(bytes.get(..SIZE_COUNTS_BYTES as usize)?.chunks_exact(32))
        {
            let [allocs, alloc_bytes, frees, freed_bytes] = [0, 8, 16, 24].map(|at| u64_at(bytes, at));
            *class = SizeCount {
                allocs: allocs?,
                alloc_bytes: alloc_bytes?,
                frees: frees?,
                freed_bytes: freed_bytes?,
            };
        }
        Some(Self { classes })
    }
}

/// A word of the shadow index: tally and, when it is small, size of the block that starts in its 32
/// bytes.
///
/// ```text
/// bit  0  25 bits  tally, never 0
/// bit 25   6 bits  size, or 63: the size is in the next word
/// bit 31           the block starts in the second 16 bytes
/// ```
///
/// Blocks of 49 bytes or more fill at least 64 bytes, so no other block starts in the 32 bytes
/// behind the first 32. The size is there; the maximum means that it is in the two words behind
/// that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockWord(pub u32);

impl BlockWord {
    /// Set for a block that starts in the second half.
    pub const HALF: u32 = 1 << 31;
    /// Smallest size that is in the next word.
    pub const LARGE: u64 = 63;
    const TALLY_BITS: u32 = 25;

    /// The word of a block. `half` is [`BlockWord::HALF`] or 0.
    #[inline(always)]
    #[must_use]
    pub fn new(tally: u32, size: u64, half: u32) -> Self {
        let code = if size < Self::LARGE { size as u32 } else { Self::LARGE as u32 };
        Self(tally | code << Self::TALLY_BITS | half)
    }

    /// Number of the block's tally.
    #[inline(always)]
    #[must_use]
    pub fn tally(self) -> u32 {
        self.0 & ((1 << Self::TALLY_BITS) - 1)
    }

    /// The size, or [`BlockWord::LARGE`].
    #[inline(always)]
    #[must_use]
    pub fn size_code(self) -> u64 {
        u64::from(self.0 >> Self::TALLY_BITS & 63)
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
    /// 1 when the program gave the name, 0 when it is the system's.
    pub named: u64,
    /// `CLOCK_MONOTONIC` milliseconds since start of the probe when it was first seen.
    pub born_ms: u64,
    /// Time at which it ended; 0 while it runs.
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
            named: u64_at(bytes, 8)?,
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
    /// Its tally.
    pub tally: u32,
    /// In log mode, when it was allocated, as the probe keeps it.
    pub alloc_time: u32,
    /// Requested bytes.
    pub size: u64,
    /// 0; rounds the record up, so that a group of them is in one page.
    pub unused: u64,
}

impl LiveBlock {
    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            address: u64_at(bytes, 0)?,
            tally: u32_at(bytes, 8)?,
            alloc_time: u32_at(bytes, 12)?,
            size: u64_at(bytes, 16)?,
            unused: u64_at(bytes, 24)?,
        })
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
    fn size_classes_are_contiguous() {
        for class in 0..SIZE_CLASSES - 1 {
            let (start, end) = (size_class_start(class), size_class_start(class + 1));
            assert!(start < end, "{class}");
            assert_eq!([size_class(start), size_class(end - 1)], [class; 2]);
        }
        assert_eq!(size_class(u64::MAX), SIZE_CLASSES - 1);
    }

    #[test]
    fn a_block_word_keeps_tally_and_small_size() {
        for (tally, size, half) in
            [(1, 0, 0), ((1 << 25) - 1, 62, BlockWord::HALF), (7, 63, 0), (7, 1 << 40, 0)]
        {
            let word = BlockWord::new(tally, size, half);
            assert_eq!((word.tally(), word.size_code()), (tally, size.min(63)));
            assert_eq!(word.0 & BlockWord::HALF, half);
        }
    }

    #[test]
    fn short_records_are_refused() {
        assert_eq!(Module::decode(&[0; 639]), None);
        assert!(Module::decode(&[0; 640]).is_some());
    }
}
