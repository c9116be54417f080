//! Sections of a segment, their positions and capacities.

use super::{Node, SECTIONS_OFFSET, mapping, memory_call, record};
use crate::event::MOST_TALLIES;

/// The arrays of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum SectionKind {
    /// Binaries that stacks refer to ([`super::Module`]).
    Modules = 0,
    /// The stack tree ([`super::Node`]); node 0 is the empty stack.
    Nodes,
    /// Names of script files and labels: each a `u16` length and that many bytes.
    Strings,
    /// Sampling distances in bytes (`u64`); tallies refer to them by index. 0 means exact.
    Rates,
    /// Counts per site and writing thread ([`super::Tally`]); number 0 is unused.
    Tallies,
    /// What most tallies do not have ([`super::TallyDetails`]), by the tally's number.
    TallyDetails,
    /// Weights of sampled tallies ([`super::TallyWeights`]), by the tally's number.
    TallyWeights,
    /// Threads ([`super::Thread`]).
    Threads,
    /// Block counts by size class ([`super::SizeCounts`]): record 0 is shared, `n + 1` is that of
    /// thread `n`.
    Sizes,
    /// Live blocks by hashed address ([`super::LiveBlock`]), each level four times the one before.
    Live,
    /// Shadow index: `u32` per GiB of address space, a directory number or 0. Here and below,
    /// number `n` is record `n - 1`.
    ShadowRoot,
    /// Shadow index: directories of 8192 `u32`, one per 128 KiB of heap, a leaf number or 0.
    ShadowDirectories,
    /// Shadow index: leaves of 4096 `u32`, one per 32 bytes of heap: 0, or the [`super::BlockWord`]
    /// of the block that starts there; the words behind it may hold its size.
    ShadowLeaves,
    /// Chunks of the event log.
    Chunks,
    /// Marks set by the program or a controller ([`super::Mark`]).
    Marks,
    /// Mappings of the program and its allocator, by address ([`super::Mapping`]).
    Mappings,
    /// Calls that return or create memory, by stack ([`super::MemoryCall`]): the first 512 slots
    /// hash a key, then the others; the last slots, one per kind, sum up what found none.
    MemoryCalls,
    /// Origins of memfds ([`super::Memfd`]); a slot holds the last one of its inodes.
    Memfds,
    /// The allocator's statistics as text, where a controller requested it ([`super::StatsText`]).
    StatsText,
}

impl SectionKind {
    /// All kinds, in the order of the section table.
    pub const ALL: [SectionKind; 19] = [
        SectionKind::Modules,
        SectionKind::Nodes,
        SectionKind::Strings,
        SectionKind::Rates,
        SectionKind::Tallies,
        SectionKind::TallyDetails,
        SectionKind::TallyWeights,
        SectionKind::Threads,
        SectionKind::Sizes,
        SectionKind::Live,
        SectionKind::ShadowRoot,
        SectionKind::ShadowDirectories,
        SectionKind::ShadowLeaves,
        SectionKind::Chunks,
        SectionKind::Marks,
        SectionKind::Mappings,
        SectionKind::MemoryCalls,
        SectionKind::Memfds,
        SectionKind::StatsText,
    ];
}

/// One array: where it starts, how many records it may hold, how large each is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Section {
    /// Byte offset in the file, a multiple of 64 KiB.
    pub offset: u64,
    /// Largest number of records.
    pub capacity: u64,
    /// Bytes per record.
    pub record_bytes: u64,
}

impl Section {
    /// Byte offset of a record; `None` beyond the capacity.
    #[must_use]
    pub fn record_offset(&self, index: u64) -> Option<u64> {
        (index < self.capacity).then(|| self.offset + index * self.record_bytes)
    }

    /// Bytes the section may grow to.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.capacity * self.record_bytes
    }
}

/// Size class of a layout. Capacities cost address space and sparse file size only; memory is
/// allocated as records are written. A process with a small `RLIMIT_AS` or `RLIMIT_FSIZE` gets a
/// smaller tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// 128 GiB of heap in the shadow index, 2²³ tallies: about 20 GiB of addresses.
    Full,
    /// 8 GiB of heap, 2¹⁹ tallies: about 1.3 GiB.
    Medium,
    /// 512 MiB of heap, 2¹⁶ tallies: about 100 MiB.
    Small,
    /// No shadow index, 2¹⁴ tallies: about 10 MiB.
    Tiny,
    /// No shadow index, for a program with very little address space: 1 MiB, no log.
    Least,
}

impl Tier {
    /// All tiers, the most generous first.
    pub const ALL: [Tier; 5] = [Tier::Full, Tier::Medium, Tier::Small, Tier::Tiny, Tier::Least];

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tier::Full => "full",
            Tier::Medium => "medium",
            Tier::Small => "small",
            Tier::Tiny => "tiny",
            Tier::Least => "least",
        }
    }
}

/// Where everything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    sections: [Section; SectionKind::ALL.len()],
    file_bytes: u64,
}

/// Bytes per directory of the shadow index: 8192 entries of `u32`, one GiB of addresses.
pub const SHADOW_DIRECTORY_BYTES: u64 = 32 * 1024;
/// Bytes per leaf of the shadow index: 4096 entries of `u32`, 128 KiB of heap. A leaf is also the
/// step in which the probe populates pages, so that a leaf that has a number may be accessed.
pub const SHADOW_LEAF_BYTES: u64 = 16 * 1024;
/// Bytes per chunk of the event log: each thread owns one, so smaller chunks allow more threads.
pub const CHUNK_BYTES: u64 = 64 * 1024;
/// Slots of the first level of the hash index; each further level has four times as many.
pub const LIVE_FIRST_LEVEL: u64 = 1 << 12;
/// Sections start on multiples of this, which suits every page size in use.
const ALIGNMENT: u64 = 64 * 1024;

impl Layout {
    /// The layout of a tier.
    #[must_use]
    pub fn new(tier: Tier) -> Self {
        // (nodes, tallies, levels of the hash index, shadow directories, leaves, chunks)
        let (nodes, tallies, levels, directories, leaves, chunks) = match tier {
            Tier::Full => (1 << 24, MOST_TALLIES, 7, 1024, 1 << 20, 2048),
            Tier::Medium => (1 << 20, 1 << 19, 6, 256, 1 << 16, 512),
            Tier::Small => (1 << 18, 1 << 16, 4, 32, 1 << 12, 128),
            Tier::Tiny => (1 << 16, 1 << 14, 2, 0, 0, 16),
            Tier::Least => (1 << 12, 1 << 11, 1, 0, 0, 0),
        };
        let (modules, strings, threads, marks, mappings) = match tier {
            Tier::Full | Tier::Medium => (2048, 1 << 22, 1 << 14, 1 << 16, 1 << 16),
            Tier::Small | Tier::Tiny => (2048, 1 << 20, 512, 1 << 10, 1 << 12),
            Tier::Least => (64, 1 << 14, 7, 64, 64),
        };
        let (calls, memfds) = match tier {
            Tier::Full | Tier::Medium => (1 << 12, 1 << 10),
            Tier::Small | Tier::Tiny => (1 << 9, 1 << 8),
            Tier::Least => (0, 0),
        };
        let stats_text = if chunks == 0 { 0 } else { 1 << 18 };
        let root = if directories == 0 { 0 } else { 1 << 18 };
        let capacities = [
            (modules, record::MODULE_BYTES),
            (nodes, Node::BYTES as u64),
            (strings, 1),
            (256, 8),
            (tallies, record::TALLY_BYTES),
            (tallies, record::TALLY_DETAILS_BYTES),
            (tallies, record::TALLY_WEIGHTS_BYTES),
            (threads, record::THREAD_BYTES),
            (threads + 1, record::SIZE_COUNTS_BYTES),
            (Self::live_level(levels).0, record::LIVE_BYTES),
            (root, 4),
            (directories, SHADOW_DIRECTORY_BYTES),
            (leaves, SHADOW_LEAF_BYTES),
            (chunks, CHUNK_BYTES),
            (marks, record::MARK_BYTES),
            (mappings, mapping::MAPPING_BYTES),
            (calls, memory_call::MEMORY_CALL_BYTES),
            (memfds, memory_call::MEMFD_BYTES),
            (stats_text, 1),
        ];
        let mut offset = SECTIONS_OFFSET as u64;
        let sections = capacities.map(|(capacity, record_bytes)| {
            let section = Section { offset, capacity, record_bytes };
            offset += section.bytes().next_multiple_of(ALIGNMENT);
            section
        });
        Self { sections, file_bytes: offset }
    }

    /// Takes a section table from a file, checked: records of the sizes of this version, every
    /// section inside the file, nothing before the first section.
    #[must_use]
    pub fn from_sections(sections: [Section; SectionKind::ALL.len()], file_bytes: u64) -> Option<Self> {
        let expected = Self::new(Tier::Full);
        for (section, known) in sections.iter().zip(&expected.sections) {
            let end = section.capacity.checked_mul(section.record_bytes)?.checked_add(section.offset)?;
            let fits = section.record_bytes == known.record_bytes
                && section.capacity <= known.capacity
                && section.offset >= SECTIONS_OFFSET as u64
                && end <= file_bytes;
            if !fits {
                return None;
            }
        }
        Some(Self { sections, file_bytes })
    }

    /// One section.
    #[must_use]
    pub fn section(&self, kind: SectionKind) -> Section {
        self.sections.get(kind as usize).copied().unwrap_or_default()
    }

    /// All sections in the order of [`SectionKind::ALL`].
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Size of the (sparse) file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// First slot of a level of the hash index, and its number of slots.
    #[must_use]
    pub fn live_level(level: u32) -> (u64, u64) {
        (LIVE_FIRST_LEVEL * (((1 << (2 * level)) - 1) / 3), LIVE_FIRST_LEVEL << (2 * level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::NO_THREAD;

    #[test]
    fn sections_do_not_overlap() {
        for tier in [Tier::Full, Tier::Medium, Tier::Small, Tier::Tiny, Tier::Least] {
            let layout = Layout::new(tier);
            let mut end = SECTIONS_OFFSET as u64;
            for section in layout.sections() {
                assert!(section.offset >= end && section.offset % ALIGNMENT == 0);
                end = section.offset + section.bytes();
            }
            assert!(end <= layout.file_bytes());
        }
    }

    #[test]
    fn numbers_fit_into_events_and_tallies() {
        for tier in [Tier::Full, Tier::Medium, Tier::Small, Tier::Tiny, Tier::Least] {
            let layout = Layout::new(tier);
            assert!(layout.section(SectionKind::Tallies).capacity <= MOST_TALLIES);
            assert!(layout.section(SectionKind::Threads).capacity <= u64::from(NO_THREAD));
        }
    }

    #[test]
    fn tiers_cost_what_they_say() {
        let gib = |tier| Layout::new(tier).file_bytes() as f64 / f64::from(1 << 30);
        assert!((15.0..30.0).contains(&gib(Tier::Full)), "{}", gib(Tier::Full));
        assert!((1.0..2.0).contains(&gib(Tier::Medium)), "{}", gib(Tier::Medium));
        assert!(gib(Tier::Small) < 0.15, "{}", gib(Tier::Small));
        assert!(gib(Tier::Tiny) < 0.013, "{}", gib(Tier::Tiny));
        assert!(gib(Tier::Least) < 0.0011, "{}", gib(Tier::Least));
    }

    #[test]
    fn levels_of_the_hash_index_are_contiguous() {
        let (start, slots) = Layout::live_level(0);
        assert_eq!((start, slots), (0, LIVE_FIRST_LEVEL));
        for level in 0..7 {
            let (start, slots) = Layout::live_level(level);
            assert_eq!(Layout::live_level(level + 1).0, start + slots);
        }
    }
}
