//! `stats`: what the probe counted, and what the allocator says of itself.

use std::fs;

use clap::Args;
use heapwise_format::segment::{AllocatorKind, Counter, MOST_ARENAS, Mode};
use heapwise_profile::snapshot::Snapshot;
use serde_json::{Map, Value, json};

use crate::failure::Outcome;
use heapwise_capture::ledger::{Counted, Ledger};
use heapwise_capture::segments::{Found, SegmentFile};
use heapwise_capture::target;
use heapwise_capture::{allocator, process};
use heapwise_profile::quantity;

/// Options of `stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Pids or program names; every process with the probe when left out
    #[arg(value_name = "PID|NAME")]
    targets: Vec<String>,
    /// As data
    #[arg(long)]
    json: bool,
}

/// The probe's counters as reports name them.
const PROBE: [(&str, Counter); 19] = [
    ("recorded", Counter::Recorded),
    ("freed", Counter::Freed),
    ("live_bytes", Counter::LiveBytes),
    ("peak_bytes", Counter::PeakBytes),
    ("allocated_bytes", Counter::AllocatedBytes),
    ("stacks", Counter::Nodes),
    ("tallies", Counter::Tallies),
    ("modules", Counter::Modules),
    ("threads", Counter::Threads),
    ("unknown_frees", Counter::UnknownFrees),
    ("untracked_blocks", Counter::UntrackedBlocks),
    ("untracked_bytes", Counter::UntrackedBytes),
    ("lost_tallies", Counter::LostTallies),
    ("lost_nodes", Counter::LostNodes),
    ("lost_events", Counter::LostEvents),
    ("lost_marks", Counter::LostMarks),
    ("truncated_stacks", Counter::Truncated),
    ("broken_stacks", Counter::Broken),
    ("own_bytes", Counter::OwnBytes),
];

/// Prints the statistics of each process.
pub(crate) fn run(args: &StatsArgs) -> Outcome {
    let all: Vec<Value> = target::processes(&args.targets)?.iter().map(of_process).collect::<Outcome<_>>()?;
    if args.json {
        println!("{}", Value::from(all));
    } else {
        all.iter().for_each(print);
    }
    Ok(())
}

fn of_process(found: &Found) -> Outcome<Value> {
    let segment = SegmentFile::open(&found.path)?;
    let answered = found.alive && allocator::ask(&segment)?;
    let snapshot = segment.snapshot()?;
    let probe = counted_by_probe(&snapshot);
    let told = if answered { told(&snapshot) } else { Map::new() };
    let counted = Counted {
        live: probe.get("live_bytes").and_then(Value::as_i64).map_or(0, |live| live.max(0) as u64),
        allocated: told.get("allocated").and_then(Value::as_u64),
        probe: snapshot.counter(Counter::OwnBytes),
    };
    let smaps = fs::read_to_string(format!("/proc/{}/smaps", found.process.pid)).unwrap_or_default();
    let file_name = found.path.file_name().unwrap_or_default().to_string_lossy();
    let ledger = (!smaps.is_empty()).then(|| Ledger::new(&smaps, &file_name, &counted));
    Ok(json!({
        "pid": found.process.pid,
        "program": String::from_utf8_lossy(snapshot.header.exe()),
        "mode": snapshot.mode().name(),
        "allocator": snapshot.header.allocator.name(),
        "rss": process::resident_bytes(found.process.pid),
        "probe": probe,
        "allocator_stats": if answered { Value::Object(told) } else { Value::Null },
        "arenas": arenas(&snapshot, ledger.as_ref()),
        "ledger": ledger.as_ref().map_or(Value::Null, ledger_json),
    }))
}

/// `{resident, live, unrecorded, …}`.
fn ledger_json(ledger: &Ledger) -> Value {
    let mut fields = Map::new();
    fields.insert("resident".into(), ledger.resident.into());
    fields.extend(ledger.entries.iter().map(|entry| (entry.name.to_owned(), entry.bytes.into())));
    Value::Object(fields)
}

fn counted_by_probe(snapshot: &Snapshot<'_, SegmentFile>) -> Map<String, Value> {
    let mut probe: Map<String, Value> =
        PROBE.iter().map(|(name, counter)| ((*name).to_owned(), snapshot.counter(*counter).into())).collect();
    if snapshot.mode() == Mode::Exact {
        // Threads add to the counters now and then; their tallies are exact.
        let total = snapshot.profile().total();
        let exact = [
            ("recorded", total.alloc_objects),
            ("freed", total.alloc_objects - total.inuse_objects),
            ("live_bytes", total.inuse_bytes),
            ("allocated_bytes", total.alloc_bytes),
        ];
        probe.extend(exact.map(|(name, value)| (name.to_owned(), (value as u64).into())));
    }
    probe
}

/// One object an arena: jemalloc tells of each, glibc's are known from outside by their addresses.
fn arenas(snapshot: &Snapshot<'_, SegmentFile>, ledger: Option<&Ledger>) -> Vec<Value> {
    match snapshot.header.allocator {
        AllocatorKind::Glibc => ledger
            .iter()
            .flat_map(|ledger| &ledger.arenas)
            .map(|arena| json!({ "start": arena.start, "resident": arena.resident }))
            .collect(),
        _ => (0..MOST_ARENAS)
            .filter_map(|index| Some((index, snapshot.arena(index)?)))
            .map(|(index, [allocated, active, resident])| {
                json!({ "arena": index, "allocated": allocated, "active": active, "resident": resident })
            })
            .collect(),
    }
}

/// The allocator's numbers; null where it does not tell.
fn told(snapshot: &Snapshot<'_, SegmentFile>) -> Map<String, Value> {
    let value = |counter| match allocator::tells(snapshot.header.allocator, counter) {
        true => snapshot.counter(counter).into(),
        false => Value::Null,
    };
    allocator::NUMBERS.iter().map(|(name, counter, _)| ((*name).to_owned(), value(*counter))).collect()
}

fn print(stats: &Value) {
    println!(
        "{} {} ({}, {})",
        stats["pid"],
        text(&stats["program"]),
        text(&stats["mode"]),
        text(&stats["allocator"])
    );
    if let Some(rss) = stats["rss"].as_u64() {
        println!("  {:<18} {:>14}  {}", "resident (RSS)", rss, quantity::bytes(rss as f64));
    }
    for section in ["ledger", "probe", "allocator_stats"] {
        let Some(values) = stats[section].as_object() else { continue };
        println!("  {}", section.replace('_', " "));
        for (name, value) in values {
            let is_bytes = section != "probe" && name != "arenas" || name.ends_with("_bytes");
            match value.as_i64() {
                Some(value) if is_bytes => println!("    {name:<18} {value:>14}  {}", signed_bytes(value)),
                Some(value) => println!("    {name:<18} {value:>14}"),
                None => println!("    {name:<18} {:>14}", "not told"),
            }
        }
    }
    for (number, arena) in stats["arenas"].as_array().into_iter().flatten().enumerate() {
        let number = arena["arena"].as_u64().unwrap_or(number as u64);
        let resident = arena["resident"].as_i64().unwrap_or(0);
        let allocated =
            arena["allocated"].as_i64().map(|bytes| format!(", {} allocated", signed_bytes(bytes)));
        let rest = allocated.unwrap_or_default();
        println!("    arena {number:<12} {resident:>14}  {} resident{rest}", signed_bytes(resident));
    }
    if stats["allocator_stats"].is_null() {
        println!("  the allocator was not asked: it is when the program allocates next");
    }
}

fn signed_bytes(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", quantity::bytes(bytes.unsigned_abs() as f64))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}
