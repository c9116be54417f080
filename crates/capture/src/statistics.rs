//! Statistics of the probe, the allocator and the kernel about the memory of one process.

use std::fs;

use heapwise_format::segment::{AllocatorKind, Counter, MOST_ARENAS, Mode};
use heapwise_profile::snapshot::Snapshot;

use crate::allocator::{self, NUMBERS};
use crate::failure::Outcome;
use crate::process;
use crate::rss_breakdown::{Counted, RssBreakdown};
use crate::segments::{SegmentEntry, SegmentFile};

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
    pub breakdown: Option<RssBreakdown>,
    /// The kernel's sums over all mappings, while the process runs.
    pub kernel: Vec<Number>,
}

/// The probe's counters as reports name them.
const PROBE: [(&str, Counter, &str); 20] = [
    ("recorded", Counter::Recorded, "allocations recorded"),
    ("freed", Counter::Freed, "recorded blocks that were freed"),
    ("live_bytes", Counter::LiveBytes, "live in recorded blocks, exact or estimated"),
    ("peak_bytes", Counter::PeakBytes, "highest live bytes so far"),
    ("allocated_bytes", Counter::AllocatedBytes, "allocated in recorded blocks"),
    ("stacks", Counter::Nodes, "nodes of the stack tree"),
    ("tallies", Counter::Tallies, "counts per stack and thread"),
    ("modules", Counter::Modules, "binaries loaded"),
    ("threads", Counter::Threads, "threads seen"),
    ("unknown_frees", Counter::UnknownFrees, "frees of blocks allocated before recording began"),
    (
        "untracked_blocks",
        Counter::UntrackedBlocks,
        "blocks whose free is not seen: the live-block index was full",
    ),
    ("untracked_bytes", Counter::UntrackedBytes, "bytes of those blocks"),
    ("lost_tallies", Counter::LostTallies, "allocations without a site of their own: the table was full"),
    ("lost_nodes", Counter::LostNodes, "allocations without a stack: the stack tree was full"),
    ("lost_events", Counter::LostEvents, "events dropped because the log was full"),
    ("lost_marks", Counter::LostMarks, "marks dropped because their table was full"),
    ("inherited_bytes", Counter::InheritedBytes, "live bytes of the parent at the fork, not in the tables"),
    ("truncated_stacks", Counter::Truncated, "stacks cut at the depth limit"),
    ("broken_stacks", Counter::Broken, "stacks that could not be unwound to their end"),
    ("own_bytes", Counter::OwnBytes, "memory of the probe itself"),
];

/// Reads the statistics of a process; of a running one also its allocator's.
pub fn read(found: &SegmentEntry) -> Outcome<Statistics> {
    let segment = SegmentFile::open(&found.path)?;
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
    let probe = probe_numbers(&snapshot);
    let told = if answered == Answered::Never { Vec::new() } else { allocator_numbers(&snapshot) };
    let named = |numbers: &[Number], name: &str| {
        numbers.iter().find(|number| number.name == name).and_then(|number| number.value)
    };
    let counted = Counted {
        live: named(&probe, "live_bytes").unwrap_or(0).max(0) as u64,
        allocated: named(&told, "allocated").filter(|_| answered_now).map(|bytes| bytes as u64),
        probe: snapshot.counter(Counter::OwnBytes),
    };
    let smaps = fs::read_to_string(format!("/proc/{}/smaps", found.process.pid)).unwrap_or_default();
    let file_name = found.path.file_name().unwrap_or_default().to_string_lossy();
    let breakdown = (alive && !smaps.is_empty()).then(|| RssBreakdown::new(&smaps, &file_name, &counted));
    Ok(Statistics {
        pid: found.process.pid,
        program: String::from_utf8_lossy(snapshot.header.exe()).into_owned(),
        mode: snapshot.mode(),
        allocator,
        resident_bytes: process::resident_bytes(found.process.pid),
        arenas: arenas(&snapshot, breakdown.as_ref()),
        probe,
        answered,
        told,
        breakdown,
        kernel: if alive { kernel_numbers(found.process.pid) } else { Vec::new() },
    })
}

fn probe_numbers(snapshot: &Snapshot<'_, SegmentFile>) -> Vec<Number> {
    let number = |(name, counter, about): &(&'static str, Counter, &'static str)| {
        let unit = match name {
            name if name.ends_with("_bytes") => Unit::Bytes,
            name if name.ends_with("_nanos") => Unit::Nanoseconds,
            _ => Unit::Count,
        };
        Number { name, value: Some(snapshot.counter(*counter) as i64), unit, about }
    };
    let mut numbers: Vec<Number> = PROBE.iter().map(number).collect();
    if snapshot.mode() == Mode::Exact {
        // Threads add to the counters now and then; their tallies are exact.
        let total = snapshot.profile().total();
        for (name, value) in [
            ("recorded", total.alloc_objects),
            ("freed", total.alloc_objects - total.inuse_objects),
            ("live_bytes", total.inuse_bytes),
            ("allocated_bytes", total.alloc_bytes),
        ] {
            numbers.iter_mut().filter(|number| number.name == name).for_each(|number| {
                number.value = Some(value as i64);
            });
        }
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

fn arenas(snapshot: &Snapshot<'_, SegmentFile>, breakdown: Option<&RssBreakdown>) -> Vec<Arena> {
    match snapshot.header.allocator {
        AllocatorKind::Glibc => breakdown
            .iter()
            .flat_map(|breakdown| &breakdown.arenas)
            .map(|arena| Arena::Glibc { start: arena.start, resident: arena.resident })
            .collect(),
        _ => (0..MOST_ARENAS)
            .filter_map(|index| Some((index, snapshot.arena(index)?)))
            .map(|(index, [allocated, active, resident])| Arena::Told { index, allocated, active, resident })
            .collect(),
    }
}

/// `/proc/<pid>/smaps_rollup`, the lines about resident memory.
fn kernel_numbers(pid: u32) -> Vec<Number> {
    const LINES: [(&str, &str); 6] = [
        ("Rss", "in physical memory"),
        ("Pss", "in physical memory, shared pages divided by their users"),
        ("Private_Dirty", "changed and used by no other process"),
        ("Anonymous", "of no file: heap, stacks"),
        ("AnonHugePages", "in huge pages"),
        ("Swap", "swapped out"),
    ];
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let value = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix("kB")?.trim().parse::<i64>().ok().map(|kilobytes| kilobytes * 1024)
    };
    LINES
        .iter()
        .filter_map(|(name, about)| {
            Some(Number { name, value: Some(value(name)?), unit: Unit::Bytes, about })
        })
        .collect()
}
