//! `stats`: what the probe counted, and what the allocator says of itself.

use std::time::{Duration, Instant};

use clap::Args;
use heapwise_format::segment::{Counter, Mode};
use serde_json::{Map, Value};

use crate::capture::control::{self, Change};
use crate::capture::process;
use crate::capture::segments::SegmentFile;
use crate::failure::Outcome;
use crate::{quantity, source};

/// Options of `stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Pids or program names; every process with the probe when left out
    #[arg(value_name = "PID|NAME")]
    targets: Vec<String>,
    /// As data
    #[arg(long)]
    json: bool,
}

/// The probe's counters as reports name them.
const PROBE: [(&str, Counter); 18] = [
    ("recorded", Counter::Recorded),
    ("freed", Counter::Freed),
    ("live_bytes", Counter::LiveBytes),
    ("peak_bytes", Counter::PeakBytes),
    ("allocated_bytes", Counter::AllocatedBytes),
    ("stacks", Counter::Nodes),
    ("buckets", Counter::Buckets),
    ("modules", Counter::Modules),
    ("threads", Counter::Threads),
    ("unknown_frees", Counter::UnknownFrees),
    ("lost_live", Counter::LostLive),
    ("lost_buckets", Counter::LostBuckets),
    ("lost_nodes", Counter::LostNodes),
    ("lost_events", Counter::LostEvents),
    ("truncated_stacks", Counter::Truncated),
    ("broken_stacks", Counter::Broken),
    ("own_bytes", Counter::OwnBytes),
    ("own_nanos", Counter::OwnNanos),
];

/// The allocator's statistics, all in bytes but the number of arenas.
const ALLOCATOR: [(&str, Counter); 9] = [
    ("allocated", Counter::StatsAllocated),
    ("active", Counter::StatsActive),
    ("resident", Counter::StatsResident),
    ("mapped", Counter::StatsMapped),
    ("retained", Counter::StatsRetained),
    ("metadata", Counter::StatsMetadata),
    ("free", Counter::StatsFree),
    ("large", Counter::StatsLarge),
    ("arenas", Counter::StatsArenas),
];

/// Prints the statistics of each process.
pub fn run(args: &StatsArgs) -> Outcome {
    let mut all = Vec::new();
    for found in source::processes(&args.targets)? {
        let segment = SegmentFile::open(&found.path)?;
        let answered = found.alive && ask(&segment)?;
        let snapshot = segment.snapshot()?;
        let section = |names: &[(&str, Counter)]| -> Map<String, Value> {
            names
                .iter()
                .map(|(name, counter)| ((*name).to_owned(), snapshot.counter(*counter).into()))
                .collect()
        };
        let mut probe = section(&PROBE);
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
        let resident = process::resident_bytes(found.process.pid);
        all.push(serde_json::json!({
            "pid": found.process.pid,
            "program": String::from_utf8_lossy(snapshot.header.exe()),
            "mode": snapshot.mode().name(),
            "allocator": snapshot.header.allocator.name(),
            "rss": resident,
            "probe": probe,
            "allocator_stats": if answered { Value::Object(section(&ALLOCATOR)) } else { Value::Null },
        }));
    }
    if args.json {
        println!("{}", Value::from(all));
    } else {
        all.iter().for_each(print);
    }
    Ok(())
}

/// Asks the probe for the allocator's statistics; whether it answered in time.
fn ask(segment: &SegmentFile) -> Outcome<bool> {
    control::write(segment, &Change::new().allocator_stats())?;
    let wanted = control::current(segment)?.allocator_stats_count;
    let deadline = Instant::now() + Duration::from_millis(500);
    while Instant::now() < deadline {
        if segment.snapshot()?.counter(Counter::StatsAnswered) >= wanted {
            return Ok(segment.snapshot()?.counter(Counter::StatsError) == 0);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(false)
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
    for section in ["probe", "allocator_stats"] {
        let Some(section_values) = stats[section].as_object() else { continue };
        println!("  {}", section.replace('_', " "));
        for (name, value) in section_values {
            let value = value.as_u64().unwrap_or(0);
            let is_bytes = section == "allocator_stats" && name != "arenas" || name.ends_with("_bytes");
            let readable = if is_bytes { quantity::bytes(value as i64 as f64) } else { String::new() };
            println!("    {name:<18} {:>12}  {readable}", value as i64);
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}
