//! What allocator, kernel and probe say about the memory of one process, as sections of rows.

use std::fs;
use std::time::{Duration, Instant};

use heapwise_format::segment::Counter;
use serde_json::{Value, json};

use super::trouble::Answer;
use crate::capture::control::{self, Change};
use crate::capture::segments::{Found, SegmentFile};

/// How long the allocator is waited for: an idle program answers when it allocates next.
const PATIENCE: Duration = Duration::from_millis(500);

/// The allocator's own numbers, in bytes but for the number of arenas.
const ALLOCATOR: [(&str, Counter, &str); 9] = [
    ("allocated", Counter::StatsAllocated, "asked for by the program and not freed"),
    ("active", Counter::StatsActive, "in pages that hold at least one block"),
    ("resident", Counter::StatsResident, "in physical memory, as the allocator knows"),
    ("mapped", Counter::StatsMapped, "mapped from the kernel"),
    ("retained", Counter::StatsRetained, "kept for later, given back to the kernel as pages"),
    ("metadata", Counter::StatsMetadata, "the allocator's own books"),
    ("free", Counter::StatsFree, "free inside the heap"),
    ("large", Counter::StatsLarge, "blocks with a mapping of their own"),
    ("arenas", Counter::StatsArenas, "independent heaps"),
];

const PROBE: [(&str, Counter, &str); 10] = [
    ("live bytes", Counter::LiveBytes, "live in recorded blocks, exact or estimated"),
    ("peak bytes", Counter::PeakBytes, "most of them at any moment"),
    ("recorded", Counter::Recorded, "allocations recorded"),
    ("freed", Counter::Freed, "recorded blocks that were freed"),
    ("stack nodes", Counter::Nodes, "nodes of the stack tree"),
    ("threads", Counter::Threads, "threads seen"),
    ("truncated stacks", Counter::Truncated, "stacks cut at the depth limit"),
    ("lost events", Counter::LostEvents, "events dropped because there was no room"),
    ("own bytes", Counter::OwnBytes, "memory of the probe itself"),
    ("unknown frees", Counter::UnknownFrees, "frees of blocks allocated before recording began"),
];

/// Sections for the page and the API.
pub(super) fn sections(segment: &SegmentFile, found: &Found) -> Answer<Vec<Value>> {
    let answered = found.is_alive() && ask(segment)?;
    let snapshot = segment.snapshot()?;
    let row = |(name, counter, about): (&str, Counter, &str)| {
        let value = snapshot.counter(counter) as i64;
        let counts = !(name.ends_with("bytes") || is_allocator(counter) && name != "arenas");
        json!({ "name": name, "value": value, "unit": if counts { "objects" } else { "bytes" }, "about": about })
    };
    let mut sections = Vec::new();
    // A program that does not allocate answers later; until then its last answer stands.
    if answered || snapshot.counter(Counter::StatsAnswered) > 0 && snapshot.counter(Counter::StatsError) == 0
    {
        let when = if answered { "" } else { ", when it allocated last" };
        let title = format!("Allocator ({}{when})", snapshot.header.allocator.name());
        sections.push(json!({ "title": title, "rows": ALLOCATOR.map(row) }));
    }
    let kernel = kernel_rows(found.process.pid);
    if found.is_alive() && !kernel.is_empty() {
        sections.push(json!({ "title": "Kernel", "rows": kernel }));
    }
    sections.push(json!({ "title": "Probe", "rows": PROBE.map(row) }));
    Ok(sections)
}

fn is_allocator(counter: Counter) -> bool {
    ALLOCATOR.iter().any(|(_, own, _)| *own as usize == counter as usize)
}

/// Asks the probe for the allocator's statistics; whether it answered in time.
fn ask(segment: &SegmentFile) -> Answer<bool> {
    control::write(segment, &Change::new().allocator_stats())?;
    let wanted = control::current(segment)?.allocator_stats_count;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let snapshot = segment.snapshot()?;
        if snapshot.counter(Counter::StatsAnswered) >= wanted {
            return Ok(snapshot.counter(Counter::StatsError) == 0);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(false)
}

/// `/proc/<pid>/smaps_rollup`, the lines that tell where resident memory is.
fn kernel_rows(pid: u32) -> Vec<Value> {
    const LINES: [(&str, &str); 6] = [
        ("Rss", "in physical memory"),
        ("Pss", "in physical memory, shared pages divided by their users"),
        ("Private_Dirty", "changed and used by nobody else"),
        ("Anonymous", "not of any file: heap, stacks"),
        ("AnonHugePages", "in huge pages"),
        ("Swap", "swapped out"),
    ];
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let value = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    LINES
        .iter()
        .filter_map(|(name, about)| {
            Some(json!({ "name": name, "value": value(name)? * 1024, "unit": "bytes", "about": about }))
        })
        .collect()
}
