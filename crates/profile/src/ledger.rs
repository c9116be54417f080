//! The ledger of a process: every resident byte belongs to exactly one line.
//!
//! A ledger is plain data. `capture::ledger` builds it from the kernel's view of the mappings, the
//! live-block index and the probe's table of mappings. The lines add up to [`Ledger::resident`].

pub mod fragmentation;
mod hint;
mod history;
pub mod memory_calls;
mod resident_profile;

pub use hint::{Hint, hints};
pub use history::{LedgerHistory, LedgerMoment};
pub use memory_calls::{CallKind, CallSite, MemfdCreation, MemfdUse};
pub use resident_profile::resident_profile;

use std::collections::HashMap;

use crate::StackId;

/// Where the resident memory of a process is, at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    /// Resident bytes (RSS): the sum of all lines.
    pub resident: u64,
    /// Resident bytes with shared pages divided by the number of their users (PSS).
    pub proportional: u64,
    /// Bytes swapped out. No line contains them.
    pub swapped: u64,
    /// Resident bytes that the kernel may take back at any time (`MADV_FREE`). Some line contains
    /// them.
    pub lazily_free: u64,
    /// Requested bytes of live blocks that are not resident. No line contains them.
    pub untouched: u64,
    /// Basis of the lines about the heap.
    pub basis: HeapBasis,
    /// The lines, in the order of [`LineKind`]; lines of one kind by size, the largest first.
    pub lines: Vec<Line>,
    /// Live blocks by stack, the most resident bytes first.
    pub heap_sites: Vec<HeapSite>,
    /// Recorded mappings by stack, the most resident bytes first.
    pub mapping_sites: Vec<MappingSite>,
    /// Calls that returned or created memory since the start of the process, the most bytes first.
    pub calls: Vec<CallSite>,
    /// Mapped memfds, the most resident bytes first.
    pub memfds: Vec<MemfdUse>,
    /// Pages of the heap by how full they are; `None` unless every block is known.
    pub pages: Option<HeapPages>,
    /// Ranges of addresses that the heap consists of, by address.
    pub heap_ranges: Vec<HeapRange>,
}

/// A range of addresses of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapRange {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub mapped: u64,
    /// Of these, resident.
    pub resident: u64,
    /// Whether it grows by `brk`.
    pub is_brk: bool,
}

/// Basis of the lines about the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeapBasis {
    /// Every live block is in the index: right to the page.
    Pages,
    /// Live bytes are estimated from samples.
    Samples,
    /// No block is recorded.
    #[default]
    Allocator,
}

impl HeapBasis {
    /// Name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HeapBasis::Pages => "pages",
            HeapBasis::Samples => "samples",
            HeapBasis::Allocator => "allocator",
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its kind.
    pub kind: LineKind,
    /// Its title; differs between lines of kind [`LineKind::Runtime`].
    pub name: String,
    /// Resident bytes.
    pub bytes: u64,
    /// What the line consists of, the largest first: files, threads. They need not add up to
    /// `bytes`.
    pub parts: Vec<Part>,
}

/// A named part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Path, name of a thread, …
    pub name: String,
    /// Resident bytes.
    pub bytes: u64,
}

/// Kinds of lines, in the order of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LineKind {
    /// Requested bytes of live blocks.
    HeapLive,
    /// Rounding and headers of live blocks.
    HeapSlack,
    /// Free bytes on pages with live blocks.
    HeapFragmentation,
    /// Heap pages without a live block.
    HeapFree,
    /// Blocks that the allocator handed out and the probe did not record.
    HeapUnrecorded,
    /// The heap of a language runtime or of an allocator inside the executable.
    Runtime,
    /// Other mappings that the program made, known by stack.
    Mappings,
    /// Anonymous memory of an attached process that no recorded call mapped.
    EarlierMappings,
    /// Stacks of threads, with their thread-local storage.
    Stacks,
    /// Executables and libraries, with their data.
    Binaries,
    /// Other mapped files.
    Files,
    /// Shared memory.
    SharedMemory,
    /// Pages that the kernel adds to every process.
    Kernel,
    /// The probe.
    Probe,
    /// Anonymous memory of unknown origin.
    Unexplained,
}

impl LineKind {
    /// All kinds, in the order of reports.
    pub const ALL: [LineKind; 15] = [
        LineKind::HeapLive,
        LineKind::HeapSlack,
        LineKind::HeapFragmentation,
        LineKind::HeapFree,
        LineKind::HeapUnrecorded,
        LineKind::Runtime,
        LineKind::Mappings,
        LineKind::EarlierMappings,
        LineKind::Stacks,
        LineKind::Binaries,
        LineKind::Files,
        LineKind::SharedMemory,
        LineKind::Kernel,
        LineKind::Probe,
        LineKind::Unexplained,
    ];

    /// Key in JSON and metrics.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            LineKind::HeapLive => "heap_live",
            LineKind::HeapSlack => "heap_slack",
            LineKind::HeapFragmentation => "heap_fragmentation",
            LineKind::HeapFree => "heap_free",
            LineKind::HeapUnrecorded => "heap_unrecorded",
            LineKind::Runtime => "runtime",
            LineKind::Mappings => "mappings",
            LineKind::EarlierMappings => "mappings_before_attach",
            LineKind::Stacks => "stacks",
            LineKind::Binaries => "binaries",
            LineKind::Files => "files",
            LineKind::SharedMemory => "shared_memory",
            LineKind::Kernel => "kernel",
            LineKind::Probe => "probe",
            LineKind::Unexplained => "unexplained",
        }
    }

    /// Title of the line, unless it has a name of its own.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            LineKind::HeapLive => "heap: live",
            LineKind::HeapSlack => "heap: slack",
            LineKind::HeapFragmentation => "heap: fragmentation",
            LineKind::HeapFree => "heap: free",
            LineKind::HeapUnrecorded => "heap: not recorded",
            LineKind::Runtime => "runtime",
            LineKind::Mappings => "mappings",
            LineKind::EarlierMappings => "mappings: before attach",
            LineKind::Stacks => "thread stacks",
            LineKind::Binaries => "libraries",
            LineKind::Files => "files",
            LineKind::SharedMemory => "shared memory",
            LineKind::Kernel => "kernel",
            LineKind::Probe => "probe",
            LineKind::Unexplained => "unexplained",
        }
    }

    /// Explanation of the line.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            LineKind::HeapLive => "requested bytes of live blocks",
            LineKind::HeapSlack => "rounding and headers of live blocks",
            LineKind::HeapFragmentation => "free bytes on pages with live blocks",
            LineKind::HeapFree => "free memory that the allocator keeps",
            LineKind::HeapUnrecorded => "blocks that the allocator handed out and the probe did not record",
            LineKind::Runtime => "heap of a language runtime, or of an allocator inside the executable",
            LineKind::Mappings => "mappings that the program made itself, by stack",
            LineKind::EarlierMappings => {
                "anonymous memory that was mapped before the attach, or later without libc"
            }
            LineKind::Stacks => "stacks of threads, with thread-local storage",
            LineKind::Binaries => "executables and libraries, with their data",
            LineKind::Files => "other mapped files",
            LineKind::SharedMemory => "shared memory",
            LineKind::Kernel => "pages that the kernel adds to every process",
            LineKind::Probe => "the probe's library, tables and segment",
            LineKind::Unexplained => "anonymous memory of unknown origin",
        }
    }

    /// Whether the line is about the allocator whose blocks are recorded.
    #[must_use]
    pub fn is_heap(self) -> bool {
        self <= LineKind::HeapUnrecorded
    }
}

/// Live blocks of one stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeapSite {
    /// The stack.
    pub stack: StackId,
    /// Live blocks.
    pub blocks: f64,
    /// Their requested bytes.
    pub live: f64,
    /// Of these, resident.
    pub resident: f64,
    /// Resident bytes of the pages on which all live blocks are of this stack: what the allocator
    /// could return if these blocks were freed.
    pub sole: u64,
    /// Free bytes on those of its pages that are at most half full.
    pub pinned: u64,
}

/// Recorded mappings of one stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingSite {
    /// The stack; that of `memfd_create` where the mapping was not recorded.
    pub stack: StackId,
    /// The memfd that is mapped, as an index of [`Ledger::memfds`].
    pub memfd: Option<usize>,
    /// Name of the line that contains them.
    pub line: String,
    /// Mappings, pieces of split ones included.
    pub count: u64,
    /// Milliseconds from the start of the process to the last call.
    pub last_ms: u32,
    /// Their bytes.
    pub mapped: u64,
    /// Of these, resident.
    pub resident: u64,
}

/// Resident pages of the heap by how full they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapPages {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages without a live block.
    pub empty: u64,
    /// Pages by the share of live blocks, with slack: above 0, 25, 50 and 75 %.
    pub quarters: [u64; 4],
}

impl Ledger {
    /// Bytes of all lines of a kind.
    #[must_use]
    pub fn of(&self, kind: LineKind) -> u64 {
        self.lines.iter().filter(|line| line.kind == kind).map(|line| line.bytes).sum()
    }

    /// Bytes of the recorded allocator's heap.
    #[must_use]
    pub fn heap(&self) -> u64 {
        self.lines.iter().filter(|line| line.kind.is_heap()).map(|line| line.bytes).sum()
    }

    /// Recorded calls that mapped the memory of a line, and when the last of them was, in
    /// milliseconds from the start of the process; `None` when no call is known.
    #[must_use]
    pub fn mapping_calls(&self, line: &str) -> Option<(u64, u32)> {
        // A stack that maps several memfds has several sites, each with all calls of the stack.
        let mut stacks: HashMap<StackId, u64> = HashMap::new();
        let mut last_ms = 0;
        for site in self.mapping_sites.iter().filter(|site| site.line == line) {
            let count = stacks.entry(site.stack).or_default();
            *count = site.count.max(*count);
            last_ms = site.last_ms.max(last_ms);
        }
        let count: u64 = stacks.values().sum();
        (count > 0).then_some((count, last_ms))
    }

    /// The main lines: the heap as one line first, the others by size, without those below `least`
    /// bytes. Unexplained memory comes last and is kept.
    #[must_use]
    pub fn main_lines(&self, least: u64) -> Vec<(&str, u64)> {
        let is_main = |line: &&Line| !line.kind.is_heap() && line.kind != LineKind::Unexplained;
        let mut lines: Vec<(&str, u64)> =
            self.lines.iter().filter(is_main).map(|line| (line.name.as_str(), line.bytes)).collect();
        lines.retain(|(_, bytes)| *bytes >= least.max(1));
        lines.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        lines.insert(0, ("heap", self.heap()));
        lines.push((LineKind::Unexplained.title(), self.of(LineKind::Unexplained)));
        lines.retain(|(_, bytes)| *bytes > 0);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_lines_add_the_heap_up_and_end_with_the_unexplained() {
        let line = |kind: LineKind, bytes| Line { kind, name: kind.title().into(), bytes, parts: Vec::new() };
        let ledger = Ledger {
            lines: vec![
                line(LineKind::HeapLive, 60),
                line(LineKind::HeapFree, 10),
                line(LineKind::Stacks, 1),
                line(LineKind::Binaries, 30),
                line(LineKind::Files, 40),
                line(LineKind::Unexplained, 2),
            ],
            ..Ledger::default()
        };
        assert_eq!(
            ledger.main_lines(5),
            [("heap", 70), ("files", 40), ("libraries", 30), ("unexplained", 2)]
        );
        assert!(LineKind::ALL.is_sorted());
    }
}
