//! The control page: the controller's settings. Words are `u64`, indexed by [`ControlWord`].
//!
//! Protocol (a sequence lock; controllers take turns by an OFD lock on the file): the controller
//! makes `Sequence` odd, writes the words, makes it even. The probe compares `Sequence` with the
//! last one it applied on each slow path, copies all words, re-reads `Sequence`, and clamps every
//! value: the other side may have written anything. The program's own changes do not wait for
//! controllers; [`Control::next_sequence`] keeps the two apart.

use super::{Demand, StatsText};
use crate::bytes::u64_at;

/// Index of a word in the control page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum ControlWord {
    /// Even: consistent; odd: being written.
    Sequence = 0,
    /// The process's own [`Mode`].
    Mode,
    /// Mean distance of samples in bytes (sampled mode).
    SampleBytes,
    /// Deepest stack recorded.
    MaxDepth,
    /// An [`IndexKind`] (exact mode).
    Index,
    /// An [`OnFull`] (log mode).
    OnFull,
    /// Longest time an event may wait for room, milliseconds (log mode).
    BlockMillis,
    /// Incremented to reset all counts.
    ResetCount,
    /// Incremented to request the allocator's own statistics.
    AllocatorStatsCount,
    /// Milliseconds since the start of the recording, ticked by the draining controller.
    TickMillis,
    /// `CLOCK_MONOTONIC` nanoseconds of the drainer's last sign of life.
    DrainHeartbeat,
    /// 0: stay as after start-up; 1: compare every memoised stack with a full walk, abort on a
    /// difference.
    Paranoid,
    /// Number of the recording, for recordings that began in mid-run: data about blocks belongs to
    /// one recording.
    Recording,
    /// One bit per slot of a [`super::Lease`] in use.
    Leases,
    /// A [`StatsText`], or 0: what the request for statistics wants as text.
    StatsText,
    /// Number of words.
    Count,
}

/// Recording mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub enum Mode {
    /// Nothing.
    #[default]
    Off = 0,
    /// One block per [`Control::sample_bytes`] on average.
    Sampled = 1,
    /// Every block, aggregated in the segment.
    Exact = 2,
    /// Every event, streamed to the controller.
    Log = 3,
}

/// How exact mode finds a block by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub enum IndexKind {
    /// The probe chooses: `Shadow` where there is room for it.
    #[default]
    Auto = 0,
    /// Open addressing, 16 bytes a slot: compact.
    Hash = 1,
    /// Direct-mapped by address, 4 bytes per 16 bytes of touched heap: fastest.
    Shadow = 2,
}

/// Action of an event when the log has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub enum OnFull {
    /// Wait up to [`Control::block_millis`], then drop and count.
    #[default]
    Block = 0,
    /// Drop and count at once.
    Drop = 1,
}

/// A writer of the control page; the last two bits of the sequence afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Writer {
    /// The program itself, through the probe's functions.
    Program = 0,
    /// A controller, which holds the lock on the file.
    Controller = 2,
}

/// The control page as plain values, every one inside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Sequence this was read at.
    pub sequence: u64,
    /// The process's own mode, which is in force without a stronger lease.
    pub mode: Mode,
    /// Mean distance of samples in bytes, at least 1.
    pub sample_bytes: u64,
    /// Deepest stack recorded, 1..=[`Control::MAX_DEPTH`].
    pub max_depth: u32,
    /// Index of live blocks in exact mode.
    pub index: IndexKind,
    /// Action when the log is full.
    pub on_full: OnFull,
    /// Longest wait for room in the log.
    pub block_millis: u32,
    /// Number of resets of the counts.
    pub reset_count: u64,
    /// Number of requests for allocator statistics.
    pub allocator_stats_count: u64,
    /// Compare memoised stacks with full walks.
    pub paranoid: bool,
    /// Changes when another recording begins.
    pub recording: u64,
    /// One bit per slot of a lease in use.
    pub leases: u64,
    /// The allocator's statistics as text, with the next answer.
    pub stats_text: Option<StatsText>,
}

impl Control {
    /// Deepest stack that can be requested; the unwinder's tables have this size.
    pub const MAX_DEPTH: u32 = 512;
    /// Default depth.
    pub const DEFAULT_DEPTH: u32 = 128;
    /// Default mean sampling distance.
    pub const DEFAULT_SAMPLE_BYTES: u64 = 512 * 1024;
    /// Largest mean sampling distance: beyond it nothing would ever be sampled.
    pub const MAX_SAMPLE_BYTES: u64 = 1 << 40;
    /// Longest an event may wait for room in the log.
    pub const MAX_BLOCK_MILLIS: u32 = 10_000;

    /// The sequence after a change that found `before`: even, larger, and of the writer's own kind.
    /// The program cannot wait for the lock of the controllers, so both may write at once. Their
    /// sequences differ, so the last sequence differs from the one applied before it.
    #[must_use]
    pub fn next_sequence(before: u64, writer: Writer) -> u64 {
        (before.wrapping_add(4) & !3) | writer as u64
    }

    /// What the process itself wants to be recorded.
    #[must_use]
    pub fn own_demand(&self) -> Demand {
        Demand { mode: self.mode, sample_bytes: self.sample_bytes }
    }

    /// Decodes and clamps a copy of the control words.
    #[must_use]
    pub fn from_words(word: impl Fn(ControlWord) -> u64) -> Self {
        let bounded = |w, low: u64, high: u64| word(w).clamp(low, high);
        Self {
            sequence: word(ControlWord::Sequence),
            mode: Mode::from_word(word(ControlWord::Mode)),
            sample_bytes: bounded(ControlWord::SampleBytes, 1, Self::MAX_SAMPLE_BYTES),
            max_depth: bounded(ControlWord::MaxDepth, 1, u64::from(Self::MAX_DEPTH)) as u32,
            index: IndexKind::from_word(word(ControlWord::Index)),
            on_full: if word(ControlWord::OnFull) == 1 { OnFull::Drop } else { OnFull::Block },
            block_millis: bounded(ControlWord::BlockMillis, 0, u64::from(Self::MAX_BLOCK_MILLIS)) as u32,
            reset_count: word(ControlWord::ResetCount),
            allocator_stats_count: word(ControlWord::AllocatorStatsCount),
            paranoid: word(ControlWord::Paranoid) == 1,
            recording: word(ControlWord::Recording),
            leases: word(ControlWord::Leases),
            stats_text: StatsText::from_word(word(ControlWord::StatsText)),
        }
    }

    /// Decodes a control page; `None` when it is too short.
    #[must_use]
    pub fn from_page(page: &[u8]) -> Option<Self> {
        u64_at(page, (ControlWord::Count as usize - 1) * 8)?;
        Some(Self::from_words(|word| u64_at(page, word as usize * 8).unwrap_or(0)))
    }
}

impl Mode {
    /// Anything unknown is [`Mode::Off`]: the harmless one.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        match word {
            1 => Mode::Sampled,
            2 => Mode::Exact,
            3 => Mode::Log,
            _ => Mode::Off,
        }
    }

    /// The name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Sampled => "sampled",
            Mode::Exact => "exact",
            Mode::Log => "log",
        }
    }
}

impl IndexKind {
    /// Anything unknown is [`IndexKind::Auto`].
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        match word {
            1 => IndexKind::Hash,
            2 => IndexKind::Shadow,
            _ => IndexKind::Auto,
        }
    }

    /// As the user writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Auto => "auto",
            IndexKind::Hash => "hash",
            IndexKind::Shadow => "shadow",
        }
    }
}
