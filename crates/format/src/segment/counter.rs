//! The counter page: what the probe counted. Words are `u64`, indexed by [`Counter`].
//!
//! One counter per reason of a loss, so that a report can name it.

/// Index of a word in the counter page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// A [`super::State`].
    State = 0,
    /// Reason why the probe is inactive (an errno, or 0).
    Errno,
    /// Control sequence last applied.
    AppliedSequence,
    /// [`super::Mode`] in force.
    Mode,
    /// Sampling distance in force.
    SampleBytes,
    /// [`super::IndexKind`] in force.
    Index,
    /// Counting period: incremented by each reset.
    Period,
    /// `CLOCK_MONOTONIC` nanoseconds when the period began.
    PeriodStart,
    /// `CLOCK_MONOTONIC` nanoseconds of the last slow path.
    LastSeen,

    /// Records in the section of the same name.
    Modules,
    /// Stack nodes in use (node 0 is the empty stack).
    Nodes,
    /// Bytes of strings in use.
    Strings,
    /// Distinct sampling distances in use.
    Rates,
    /// Tallies handed out to threads; number 0 is unused.
    Tallies,
    /// Threads ever seen.
    Threads,
    /// Marks ever set.
    Marks,
    /// Directory pages of the shadow index in use.
    ShadowDirectories,
    /// Leaves of the shadow index in use.
    ShadowLeaves,
    /// Levels of the hash index in use.
    LiveLevels,
    /// Chunks of the log in use.
    Chunks,

    /// Allocations recorded (all of them in exact mode, the samples in sampled mode).
    Recorded,
    /// Frees of recorded blocks.
    Freed,
    /// Live bytes now: exact, or estimated from samples (two's complement; may be briefly
    /// negative).
    LiveBytes,
    /// Highest [`Counter::LiveBytes`] of this period, within 2 % or 64 KiB.
    PeakBytes,
    /// Epoch of the snapshot that was taken at the highest peak so far (see
    /// [`super::Tally::epoch`]).
    PeakEpoch,
    /// Live bytes when that snapshot was taken.
    PeakEpochBytes,
    /// Bytes allocated in this period: exact, or estimated.
    AllocatedBytes,
    /// Populated bytes of the segment and of private tables: the probe's own memory.
    OwnBytes,

    /// Frees of blocks allocated before recording began, or by a path that is not hooked.
    UnknownFrees,
    /// Blocks counted as allocated and freed at once, because the index of live blocks was full.
    UntrackedBlocks,
    /// Their bytes.
    UntrackedBytes,
    /// Allocations counted on `[out of table space: sites]`: no room for a tally.
    LostTallies,
    /// Allocations counted on `[out of table space: stacks]`: no room for a stack.
    LostNodes,
    /// Labels and script frames named `[out of table space: labels]`: no room for their names.
    LostStrings,
    /// Threads whose events are counted without a thread: no memory for their state, or too many
    /// threads.
    LostThreads,
    /// Marks dropped: table full.
    LostMarks,
    /// Events dropped: log full.
    LostEvents,
    /// Events that waited for room in the log.
    WaitedEvents,
    /// Events inside the probe itself on the same thread (a signal handler that allocates).
    Reentrant,
    /// Stacks cut at the depth limit.
    Truncated,
    /// Sites whose stacks end in code without unwind information, or pass through such code.
    Broken,
    /// Modules not recorded: table full.
    LostModules,
    /// Forks seen (each child has a segment of its own).
    Forks,
    /// Automatic dumps written by the probe.
    Dumps,
    /// Automatic dumps that failed.
    FailedDumps,

    /// `AllocatorStatsCount` last answered; the eleven words that follow belong to it.
    StatsAnswered,
    /// Bytes the allocator has handed out.
    StatsAllocated,
    /// Bytes in pages that hold live blocks.
    StatsActive,
    /// Bytes resident in memory.
    StatsResident,
    /// Bytes mapped from the system.
    StatsMapped,
    /// Bytes kept mapped but unused.
    StatsRetained,
    /// Bytes of the allocator's own books.
    StatsMetadata,
    /// Arenas.
    StatsArenas,
    /// Bytes free inside the allocator, ready for reuse.
    StatsFree,
    /// Bytes in blocks mapped one by one.
    StatsLarge,
    /// Errno-like result: 0 on success, else the reason.
    StatsError,
    /// Bytes of text in [`super::SectionKind::StatsText`].
    StatsTextBytes,

    /// `CLOCK_MONOTONIC` nanoseconds up to which the drainer has written all events to its file.
    RecordedNanos,
    /// Live bytes of the parent when this process was forked: blocks that the tables do not have.
    InheritedBytes,
    /// Ranges in the table of mappings.
    Mappings,
    /// Changes of the table of mappings, twice: odd while it changes.
    MappingsSequence,
    /// Changes of mappings that are not in the table: it was full, or in use for too long.
    LostMappings,

    /// Allocations of [`Counter::LostTallies`], [`Counter::LostNodes`] and
    /// [`Counter::UntrackedBlocks`] that a table had room for, but the file system of the segment
    /// had not.
    NoSpaceLosses,
    /// The same, where the segment was frozen (see [`FrozenBy`]).
    FrozenLosses,
    /// Events of [`Counter::LostEvents`] for which the file system of the segment had no space.
    NoSpaceEvents,
    /// Events of [`Counter::LostEvents`] that were lost because the segment was frozen.
    FrozenEvents,
    /// Reason why pages of the segment could not be had (an errno, or 0).
    SpaceErrno,
    /// A [`FrozenBy`].
    FrozenBy,
    /// Times recording was switched on, in any mode.
    Starts,
    /// `CLOCK_MONOTONIC` nanoseconds when recording was last switched on.
    StartedNanos,
    /// `CLOCK_MONOTONIC` nanoseconds when recording was last switched off; 0 when it never was.
    StoppedNanos,
    /// `CLOCK_MONOTONIC` nanoseconds when recording began in this period; 0 if it never did. Equal
    /// to [`Counter::PeriodStart`] when it began with the period.
    RecordingStart,
    /// Times that recording was switched off and on again in this period.
    Pauses,
    /// How the program ended, written by a controller that read its exit status; 0 if none did.
    End,
    /// Calls of the probe's API dropped: made in a signal handler that interrupted the probe.
    LostCalls,
    /// Most resident bytes at any time, noted when the process exits; 0 before, and for a process
    /// that was killed.
    PeakResident,
    /// Functions hooked at their entry, which the dynamic linker does not lead to.
    EntryHooks,
    /// A [`super::Runtime`]; 0 when there is none.
    Runtime,
    /// Nanoseconds between the start of the process and the attach of the probe; 0 when the probe
    /// was there from the start.
    AgeAtAttach,
    /// Calls in [`super::SectionKind::MemoryCalls`].
    MemoryCalls,
    /// Calls that return or create memory that are not there: no memory for the table, or made in a
    /// signal handler that interrupted the probe.
    LostMemoryCalls,
    /// The epoch in which the period began (see [`super::Tally::epoch`]).
    PeriodEpoch,
    /// Number of words.
    Count,
}

/// Call of the program after which its segment grows no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum FrozenBy {
    /// It grows.
    Nothing = 0,
    /// `seccomp`: the probe makes no system call any more.
    Seccomp = 1,
    /// A limit on the address space.
    AddressLimit = 2,
    /// `mlockall`, after which every page would be populated.
    LockedMemory = 3,
}

impl FrozenBy {
    /// Anything unknown is [`FrozenBy::Nothing`].
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        match word {
            1 => FrozenBy::Seccomp,
            2 => FrozenBy::AddressLimit,
            3 => FrozenBy::LockedMemory,
            _ => FrozenBy::Nothing,
        }
    }
}

/// Words of the counter page from here on belong to the allocator's arenas, three each: bytes
/// handed out, in pages that hold live blocks, and resident. All three are 0 for an arena that is
/// not in use.
pub const ARENA_WORDS: usize = 256;
/// Largest number of arenas reported.
pub const MOST_ARENAS: usize = 64;
const _: () = assert!(Counter::Count as usize <= ARENA_WORDS);
const _: () = assert!((ARENA_WORDS + 3 * MOST_ARENAS) * 8 <= super::PAGE_BYTES);
