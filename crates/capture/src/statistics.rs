//! Statistics of the probe, the allocator and the kernel about the memory of one process.

use heapwise_format::segment::{AllocatorKind, Counter, MOST_ARENAS, Mode};
use heapwise_profile::snapshot::Snapshot;

use crate::allocator::{self, NUMBERS};
use crate::failure::Outcome;
use crate::ledger::{self, Reading};
use crate::process;
use crate::segments::{SegmentEntry, SegmentFile};
use crate::stopped;

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Blocks, stacks, events, …
    Count,
    /// Nanoseconds.
    Nanoseconds,
}

/// One number.
#[derive(Debug, Clone)]
pub struct Number {
    /// Its key in JSON, with underscores.
    pub name: &'static str,
    /// The value; `None` when the allocator does not provide it.
    pub value: Option<i64>,
    /// What it counts.
    pub unit: Unit,
    /// What it means.
    pub about: &'static str,
}

/// One heap of the allocator, in bytes.
#[derive(Debug, Clone, Copy)]
pub enum Arena {
    /// Known from outside by its address.
    Glibc {
        /// First address.
        start: u64,
        /// In physical memory.
        resident: u64,
    },
    /// Provided by the allocator.
    Told {
        /// Its number.
        index: usize,
        /// Requested by the program and not freed.
        allocated: u64,
        /// In pages that hold at least one block.
        active: u64,
        /// In physical memory.
        resident: u64,
    },
}

/// When the allocator answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// Just now.
    Now,
    /// Earlier: the program has not allocated since the request.
    Before,
    /// Never.
    Never,
}

/// All statistics of a process.
#[derive(Debug)]
pub struct Statistics {
    /// Its id.
    pub pid: u32,
    /// Path of its program.
    pub program: String,
    /// Mode of the probe.
    pub mode: Mode,
    /// Its allocator.
    pub allocator: AllocatorKind,
    /// Resident bytes, while it runs.
    pub resident_bytes: Option<u64>,
    /// The probe's counters.
    pub probe: Vec<Number>,
    /// When the allocator's numbers are from.
    pub answered: Answered,
    /// The allocator's numbers.
    pub told: Vec<Number>,
    /// Its heaps.
    pub arenas: Vec<Arena>,
    /// Where resident memory is, while the process runs.
    pub memory: Option<Reading>,
}

/// glibc maps the heaps of further arenas at multiples of this.
const GLIBC_ARENA_BYTES: u64 = 64 << 20;

/// The probe's counters as reports name them.
const PROBE: [(&str, Counter, &str); 26] = [
    ("recorded", Counter::Recorded, "allocations recorded"),
    ("freed", Counter::Freed, "recorded blocks that were freed"),
    ("live_bytes", Counter::LiveBytes, "live in recorded blocks, exact or estimated"),
    ("peak_bytes", Counter::PeakBytes, "highest live bytes so far"),
    ("allocated_bytes", Counter::AllocatedBytes, "allocated in recorded blocks"),
    ("stacks", Counter::Nodes, "nodes of the stack tree"),
    ("tallies", Counter::Tallies, "counts per stack and thread"),
    ("modules", Counter::Modules, "binaries loaded"),
    ("threads", Counter::Threads, "threads seen"),
    ("unknown_frees", Counter::UnknownFrees, "frees of blocks that are not in the live-block index"),
    (
        "untracked_blocks",
        Counter::UntrackedBlocks,
        "blocks whose free is not seen: the live-block index was full",
    ),
    ("untracked_bytes", Counter::UntrackedBytes, "bytes of those blocks"),
    ("lost_tallies", Counter::LostTallies, "allocations without a site of their own: the table was full"),
    ("lost_nodes", Counter::LostNodes, "allocations without a stack: the stack tree was full"),
    ("lost_events", Counter::LostEvents, "events dropped because the log was full"),
    ("no_space_losses", Counter::NoSpaceLosses, "of these, because the file system of the segment was full"),
    (
        "frozen_losses",
        Counter::FrozenLosses,
        "of these, because the program limited itself (seccomp, limits)",
    ),
    ("no_space_events", Counter::NoSpaceEvents, "dropped because the file system of the segment was full"),
    ("frozen_events", Counter::FrozenEvents, "dropped because the program limited itself"),
    ("lost_marks", Counter::LostMarks, "marks dropped because their table was full"),
    (
        "lost_calls",
        Counter::LostCalls,
        "calls of heapwise.h dropped: a signal handler in the probe made them",
    ),
    (
        "lost_memory_calls",
        Counter::LostMemoryCalls,
        "calls of madvise and memfd_create not recorded: no memory, or a signal handler in the probe",
    ),
    ("inherited_bytes", Counter::InheritedBytes, "live bytes of the parent at the fork, not in the tables"),
    ("truncated_stacks", Counter::Truncated, "stacks cut at the depth limit"),
    ("broken_stacks", Counter::Broken, "sites whose stacks could not be unwound to their end"),
    ("own_bytes", Counter::OwnBytes, "memory of the probe itself"),
];

/// Reads the statistics of a process; of a running one also its allocator's.
pub fn read(found: &SegmentEntry) -> Outcome<Statistics> {
    let segment = found.open()?;
    let alive = found.is_alive();
    let answered_now = alive && allocator::ask(&segment)?;
    let snapshot = segment.snapshot()?;
    let answered_once =
        snapshot.counter(Counter::StatsAnswered) > 0 && snapshot.counter(Counter::StatsError) == 0;
    let answered = match (answered_now, answered_once) {
        (true, _) => Answered::Now,
        (false, true) => Answered::Before,
        (false, false) => Answered::Never,
    };
    let allocator = snapshot.header.allocator;
    let probe = probe_numbers(&segment, &snapshot);
    let told = if answered == Answered::Never { Vec::new() } else { allocator_numbers(&snapshot) };
    let memory = if alive { ledger::read(found)? } else { None };
    Ok(Statistics {
        pid: found.process.pid,
        program: String::from_utf8_lossy(snapshot.header.exe()).into_owned(),
        mode: snapshot.mode(),
        allocator,
        resident_bytes: process::resident_bytes(found.process.pid),
        arenas: arenas(&snapshot, memory.as_ref()),
        probe,
        answered,
        told,
        memory,
    })
}

fn probe_numbers(segment: &SegmentFile, snapshot: &Snapshot<'_, SegmentFile>) -> Vec<Number> {
    let number = |(name, counter, about): &(&'static str, Counter, &'static str)| {
        let unit = match name {
            name if name.ends_with("_bytes") => Unit::Bytes,
            name if name.ends_with("_nanos") => Unit::Nanoseconds,
            _ => Unit::Count,
        };
        Number { name, value: Some(snapshot.counter(*counter) as i64), unit, about }
    };
    let mut numbers: Vec<Number> = PROBE.iter().map(number).collect();
    // Threads add to the counters now and then; their tallies are exact.
    let total = snapshot.totals();
    for (name, value) in [
        ("freed", total.alloc_objects - total.inuse_objects),
        ("live_bytes", total.inuse_bytes),
        ("peak_bytes", snapshot.peak_bytes(total.inuse_bytes) as f64),
        ("allocated_bytes", total.alloc_bytes),
    ] {
        numbers.iter_mut().filter(|number| number.name == name).for_each(|number| {
            number.value = Some(value as i64);
        });
    }
    // As `ps` and `top` show it: of a process that does not record, when it was stopped.
    if let Some(stopped) = stopped::load(segment) {
        let live = stopped.total().inuse_bytes;
        let about = "of the live bytes when recording stopped, not freed since";
        let now = Number {
            name: "held_now_bytes",
            value: Some(total.inuse_bytes as i64),
            unit: Unit::Bytes,
            about,
        };
        let at = numbers.iter().position(|number| number.name == "live_bytes").unwrap_or(0);
        numbers[at].value = Some(live as i64);
        numbers[at].about = "live in recorded blocks when recording stopped";
        numbers.insert(at + 1, now);
    }
    if matches!(snapshot.mode(), Mode::Exact | Mode::Log) {
        numbers.iter_mut().filter(|number| number.name == "recorded").for_each(|number| {
            number.value = Some(total.alloc_objects as i64);
        });
    }
    numbers
}

fn allocator_numbers(snapshot: &Snapshot<'_, SegmentFile>) -> Vec<Number> {
    let number = |&(name, counter, about): &allocator::Number| {
        let told = allocator::tells(snapshot.header.allocator, counter);
        Number {
            name,
            value: told.then(|| snapshot.counter(counter) as i64),
            unit: if matches!(counter, Counter::StatsArenas) { Unit::Count } else { Unit::Bytes },
            about,
        }
    };
    NUMBERS.iter().map(number).collect()
}

/// The `brk` heap and the arenas of further threads over glibc; the allocator's own numbers over
/// others.
fn arenas(snapshot: &Snapshot<'_, SegmentFile>, memory: Option<&Reading>) -> Vec<Arena> {
    match snapshot.header.allocator {
        AllocatorKind::Glibc => {
            let ranges = memory.iter().flat_map(|memory| &memory.ledger.heap_ranges);
            // Large blocks have ranges of their own.
            let arenas = ranges.filter(|range| range.is_brk || range.start.is_multiple_of(GLIBC_ARENA_BYTES));
            arenas.map(|range| Arena::Glibc { start: range.start, resident: range.resident }).collect()
        }
        _ => (0..MOST_ARENAS)
            .filter_map(|index| Some((index, snapshot.arena(index)?)))
            .map(|(index, [allocated, active, resident])| Arena::Told { index, allocated, active, resident })
            .collect(),
    }
}
