//! The shared segment: all data of the probe, in one sparse file.
//!
//! ```text
//! page 0   header     who, where, version, section table        written once by the probe
//! page 1   control    what the controller wants  (u64 words)    written by the controller
//! page 2   counters   what the probe counted     (u64 words)    written by the probe
//! page 3…  sections   arrays of fixed-size records, each at its own offset with its own capacity
//! ```
//!
//! Rules that make it safe to share:
//! * nothing in it is a pointer or a lock; indices are checked against capacities on both sides;
//! * sections are sparse: the probe populates pages (`MADV_POPULATE_WRITE`) before it accesses
//!   them, so a full file system is a counted loss and never a `SIGBUS`;
//! * readers use `pread`, never a mapping: a truncated file is a short read, and reading a hole of
//!   tmpfs through a mapping would allocate the page;
//! * an array's length is a [`Counter`] that is stored after the record it covers; other threads
//!   may still be at records before that one ([`read_appended`]).

mod access;
mod appended;
mod control;
mod counter;
mod header;
mod layout;
mod lease;
mod mapping;
mod memory_call;
mod node;
mod order;
mod record;
mod runtime;
mod stats_text;

pub use access::{SegmentSink, SegmentSource};
pub use appended::read_appended;
pub use control::{Control, ControlWord, IndexKind, Mode, OnFull, Writer};
pub use counter::{ARENA_WORDS, Counter, FrozenBy, MOST_ARENAS};
pub use header::{AllocatorKind, Architecture, Header, HeaderError, MAGIC, State, VERSION};
pub use layout::{
    CHUNK_BYTES, LIVE_FIRST_LEVEL, Layout, SHADOW_DIRECTORY_BYTES, SHADOW_LEAF_BYTES, Section, SectionKind,
    Tier,
};
pub use lease::{Controller, Demand, LEASE_SLOTS, Lease, LeaseWord, leases};
pub use mapping::{Mapping, Purpose};
pub use memory_call::{CallKind, Memfd, MemoryCall};
pub use node::{Node, NodePlace};
pub use order::{LeaseChange, Update, beat, tick, write_control};
pub use record::{
    BlockWord, LiveBlock, Mark, Module, NO_THREAD, SIZE_CLASSES, SizeCount, SizeCounts, Tally, TallyDetails,
    TallyWeights, Thread, ThreadState, size_class, size_class_start,
};
pub use runtime::{Runtime, RuntimeLanguage, RuntimeSupport};
pub use stats_text::StatsText;

/// Size of each of the three leading pages, independent of the machine's page size.
pub const PAGE_BYTES: usize = 4096;
/// Offset of the control page.
pub const CONTROL_OFFSET: usize = PAGE_BYTES;
/// Offset of the counter page.
pub const COUNTERS_OFFSET: usize = 2 * PAGE_BYTES;
/// Offset of the first section; a multiple of 64 KiB so that sections suit every page size.
pub const SECTIONS_OFFSET: usize = 64 * 1024;
