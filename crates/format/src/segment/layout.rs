//! Which sections a segment has, where, and how large they may grow.

use super::{SECTIONS_OFFSET, record};

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
    /// Sampling distances in bytes (`u64`); buckets refer to them by index. 0 means exact.
    Rates,
    /// Distinct (stack, size, rate, period) combinations ([`super::Bucket`]); 0 is nobody's.
    Buckets,
    /// `Slabs × Buckets` tallies ([`super::Tally`]), slab after slab.
    Tallies,
    /// Threads ([`super::Thread`]).
    Threads,
    /// Live blocks by hashed address ([`super::LiveBlock`]), each level four times the one before.
    Live,
    /// Shadow index: `u32` per GiB of address space, a directory number or 0. Here and below, number `n` is
    /// record `n - 1`.
    ShadowRoot,
    /// Shadow index: directories of 8192 `u32`, one per 128 KiB of heap, a leaf number or 0.
    ShadowDirectories,
    /// Shadow index: leaves of 4096 `u32`, one per 32 bytes of heap: 0, or the bucket of the block that begins there, with the highest
    /// bit set when it begins in the second half.
    ShadowLeaves,
    /// Chunks of the event log.
    Chunks,
    /// Marks set by the program or a controller ([`super::Mark`]).
    Marks,
}

impl SectionKind {
    /// All kinds, in the order of the section table.
    pub const ALL: [SectionKind; 13] = [
        SectionKind::Modules,
        SectionKind::Nodes,
        SectionKind::Strings,
        SectionKind::Rates,
        SectionKind::Buckets,
        SectionKind::Tallies,
        SectionKind::Threads,
        SectionKind::Live,
        SectionKind::ShadowRoot,
        SectionKind::ShadowDirectories,
        SectionKind::ShadowLeaves,
        SectionKind::Chunks,
        SectionKind::Marks,
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

/// How generous a layout is. Capacities cost address space and sparse file size only; memory is used
/// as records are written. A process with a small `RLIMIT_AS` or `RLIMIT_FSIZE` gets a smaller tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// 128 GiB of heap in the shadow index, 128 slabs of 2²¹ buckets: about 25 GiB of addresses.
    Full,
    /// 8 GiB of heap, 16 slabs of 2¹⁸ buckets: about 1.5 GiB.
    Medium,
    /// 512 MiB of heap, 4 slabs of 2¹⁵ buckets: about 100 MiB.
    Small,
    /// No shadow index, one slab: about 10 MiB.
    Tiny,
    /// The same for a program with next to no address space: less than 1 MiB, no log.
    Least,
}

/// Where everything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    sections: [Section; SectionKind::ALL.len()],
    file_bytes: u64,
}

/// Bytes per directory of the shadow index: 8192 entries of `u32`, one GiB of addresses.
pub const SHADOW_DIRECTORY_BYTES: u64 = 32 * 1024;
/// Bytes per leaf of the shadow index: 4096 entries of `u32`, 128 KiB of heap. A leaf is also the step in which
/// the probe makes pages real, so that a leaf that has a number may be touched.
pub const SHADOW_LEAF_BYTES: u64 = 16 * 1024;
/// Bytes per chunk of the event log: each thread holds one, so many small ones serve more threads.
pub const CHUNK_BYTES: u64 = 64 * 1024;
/// Slots of the first level of the hash index; each further level has four times as many.
pub const LIVE_FIRST_LEVEL: u64 = 1 << 12;
/// Sections start on multiples of this, which suits every page size in use.
const ALIGNMENT: u64 = 64 * 1024;

impl Layout {
    /// The layout of a tier.
    #[must_use]
    pub fn new(tier: Tier) -> Self {
        // (nodes, buckets, slabs, levels of the hash index, shadow directories, leaves, chunks)
        let (nodes, buckets, slabs, levels, directories, leaves, chunks) = match tier {
            Tier::Full => (1 << 22, 1 << 21, 128, 7, 1024, 1 << 20, 2048),
            Tier::Medium => (1 << 20, 1 << 18, 16, 6, 256, 1 << 16, 512),
            Tier::Small => (1 << 18, 1 << 15, 4, 4, 32, 1 << 12, 128),
            Tier::Tiny => (1 << 16, 1 << 14, 1, 2, 0, 0, 16),
            Tier::Least => (1 << 13, 1 << 12, 1, 1, 0, 0, 0),
        };
        let (modules, strings, threads) =
            if tier == Tier::Least { (64, 1 << 14, 64) } else { (2048, 1 << 20, 4096) };
        let root = if directories == 0 { 0 } else { 1 << 18 };
        let capacities = [
            (modules, record::MODULE_BYTES),
            (nodes, record::NODE_BYTES),
            (strings, 1),
            (256, 8),
            (buckets, record::BUCKET_BYTES),
            (slabs * buckets, record::TALLY_BYTES),
            (threads, record::THREAD_BYTES),
            (Self::live_level(levels).0, record::LIVE_BYTES),
            (root, 4),
            (directories, SHADOW_DIRECTORY_BYTES),
            (leaves, SHADOW_LEAF_BYTES),
            (chunks, CHUNK_BYTES),
            (256, record::MARK_BYTES),
        ];
        let mut offset = SECTIONS_OFFSET as u64;
        let sections = capacities.map(|(capacity, record_bytes)| {
            let section = Section { offset, capacity, record_bytes };
            offset += section.bytes().next_multiple_of(ALIGNMENT);
            section
        });
        Self { sections, file_bytes: offset }
    }

    /// Takes a section table from a file, checked: records of the sizes this version knows, every
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

    /// Tally slabs that fit: slab 0 is shared, the others belong to one thread at a time.
    #[must_use]
    pub fn slabs(&self) -> u64 {
        self.section(SectionKind::Tallies)
            .capacity
            .checked_div(self.section(SectionKind::Buckets).capacity)
            .unwrap_or(0)
    }

    /// Record index of a bucket's tally in a slab.
    #[must_use]
    pub fn tally_index(&self, slab: u64, bucket: u64) -> u64 {
        slab * self.section(SectionKind::Buckets).capacity + bucket
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
    use crate::event::{MOST_BUCKETS, NO_THREAD};

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
            assert!(layout.slabs() >= 1);
        }
    }

    /// What events of the log and births have room for.
    #[test]
    fn numbers_fit_into_events() {
        for tier in [Tier::Full, Tier::Medium, Tier::Small, Tier::Tiny, Tier::Least] {
            let layout = Layout::new(tier);
            assert!(layout.section(SectionKind::Buckets).capacity <= MOST_BUCKETS);
            assert!(layout.section(SectionKind::Threads).capacity <= u64::from(NO_THREAD));
        }
    }

    #[test]
    fn tiers_cost_what_they_say() {
        let gib = |tier| Layout::new(tier).file_bytes() as f64 / f64::from(1 << 30);
        assert!((20.0..30.0).contains(&gib(Tier::Full)), "{}", gib(Tier::Full));
        assert!((1.0..2.0).contains(&gib(Tier::Medium)), "{}", gib(Tier::Medium));
        assert!(gib(Tier::Small) < 0.15, "{}", gib(Tier::Small));
        assert!(gib(Tier::Tiny) < 0.012, "{}", gib(Tier::Tiny));
        assert!(gib(Tier::Least) < 0.001, "{}", gib(Tier::Least));
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
