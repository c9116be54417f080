//! What allocator, kernel and probe say about the memory of one process, as sections of rows.

use std::fs;

use heapwise_format::segment::Counter;
use serde_json::{Value, json};

use super::error::Result;
use heapwise_capture::allocator::{self, NUMBERS, Number};
use heapwise_capture::ledger::{Counted, Entry, Ledger};
use heapwise_capture::segments::{Found, SegmentFile};

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
pub(super) fn sections(segment: &SegmentFile, found: &Found) -> Result<Vec<Value>> {
    let answered = found.is_alive() && allocator::ask(segment)?;
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
        let told = |number: &Number| allocator::tells(snapshot.header.allocator, number.1);
        let rows: Vec<Value> = NUMBERS.into_iter().filter(told).map(row).collect();
        sections.push(json!({ "title": title, "rows": rows }));
    }
    let allocated = answered && allocator::tells(snapshot.header.allocator, Counter::StatsAllocated);
    let counted = Counted {
        live: snapshot.live_bytes(),
        allocated: allocated.then(|| snapshot.counter(Counter::StatsAllocated)),
        probe: snapshot.counter(Counter::OwnBytes),
    };
    let ledger = ledger_rows(found, &counted);
    if found.is_alive() && !ledger.is_empty() {
        sections.push(json!({ "title": "Where resident memory is", "rows": ledger }));
    }
    let kernel = kernel_rows(found.process.pid);
    if found.is_alive() && !kernel.is_empty() {
        sections.push(json!({ "title": "Kernel", "rows": kernel }));
    }
    sections.push(json!({ "title": "Probe", "rows": PROBE.map(row) }));
    Ok(sections)
}

fn is_allocator(counter: Counter) -> bool {
    NUMBERS.iter().any(|(_, own, _)| *own as usize == counter as usize)
}

/// The parts of resident memory; none when the kernel does not tell.
fn ledger_rows(found: &Found, counted: &Counted) -> Vec<Value> {
    let smaps = fs::read_to_string(format!("/proc/{}/smaps", found.process.pid)).unwrap_or_default();
    let file_name = found.path.file_name().unwrap_or_default().to_string_lossy();
    let entries =
        if smaps.is_empty() { Vec::new() } else { Ledger::new(&smaps, &file_name, counted).entries };
    let row = |entry: &Entry| json!({ "name": entry.name, "value": entry.bytes, "unit": "bytes", "about": entry.about });
    entries.iter().map(row).collect()
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
