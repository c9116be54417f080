//! `ps`: processes that carry the probe, or left their last state behind.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use heapwise_format::segment::{Counter, IndexKind, Lease, Mode, State};
use heapwise_profile::snapshot::Snapshot;

use crate::console;
use crate::failure::{Failure, Outcome};
use heapwise_capture::lease;
use heapwise_capture::process;
use heapwise_capture::segments::{self, SegmentEntry, SegmentFile};
use heapwise_capture::{stale_segments, stopped};
use heapwise_profile::quantity;

/// Options of `ps`.
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// List processes of every user and of containers too (root sees them all)
    #[arg(short, long)]
    all: bool,
    /// List processes that have ended but left their last state behind
    #[arg(long)]
    dead: bool,
    /// Remove what ended processes left behind
    #[arg(long)]
    clean: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One line of the list.
struct Row {
    pid: u32,
    /// Number in its own pid namespace.
    inner_pid: u32,
    uid: u32,
    program: String,
    mode: &'static str,
    rate: Option<u64>,
    index: Option<IndexKind>,
    live_bytes: u64,
    age: Duration,
    state: &'static str,
    leases: Vec<Lease>,
}

/// Lists, or cleans up.
pub(crate) fn run(args: &PsArgs) -> Outcome {
    if args.clean {
        return clean();
    }
    stale_segments::collect();
    let found = if args.all { segments::list_all() } else { segments::list() };
    let rows: Vec<Row> = found
        .iter()
        .filter(|found| found.alive != args.dead)
        .filter_map(|found| match row(found) {
            Ok(row) => Some(row),
            Err(problem) => {
                note!("{problem}");
                None
            }
        })
        .collect();
    if args.json {
        print_json(&rows)
    } else {
        print_table(&rows, args)
    }
    Ok(())
}

fn clean() -> Outcome {
    let mut removed = 0;
    for found in segments::list().into_iter().filter(|found| !found.alive && !found.is_alive()) {
        found.remove().map_err(|error| Failure::file(&found.path, error))?;
        removed += 1;
    }
    stale_segments::collect();
    note!("removed what {removed} ended processes left behind");
    Ok(())
}

fn row(found: &SegmentEntry) -> Outcome<Row> {
    let segment = found.open()?;
    let snapshot = segment.snapshot()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mode = snapshot.mode();
    let was_attached = snapshot.counter(Counter::AgeAtAttach) > 0;
    // As `top` shows it: of a process that does not record, when it was stopped.
    let live = stopped::load(&segment).map_or_else(|| snapshot.totals(), |profile| profile.total());
    Ok(Row {
        pid: found.process.pid,
        inner_pid: snapshot.header.process.pid,
        // That of the header is the user's number in its own namespace.
        uid: process::uid(found.process.pid).filter(|_| found.is_alive()).unwrap_or(snapshot.header.uid),
        program: program(found, &snapshot),
        mode: mode.name(),
        rate: (mode == Mode::Sampled).then(|| snapshot.counter(Counter::SampleBytes)),
        index: snapshot.index(),
        live_bytes: live.inuse_bytes as u64,
        age: now.saturating_sub(Duration::from_nanos(snapshot.header.start_realtime_ns)),
        state: match (found.alive, snapshot.state()) {
            (_, State::StoodAside) => "standing aside",
            // Nothing of it is hooked, so the mode in the segment stays what it was.
            (true, _) if was_attached && snapshot.counter(Counter::EntryHooks) == 0 => "detached",
            (true, _) => "running",
            (false, _) if found.is_alive() => "replaced",
            (false, State::Exited) => "exited",
            (false, _) => "killed",
        },
        leases: if found.alive { lease::held(&snapshot) } else { Vec::new() },
    })
}

/// What a running process is called; what an ended one was.
fn program(found: &SegmentEntry, snapshot: &Snapshot<'_, SegmentFile>) -> String {
    if found.is_alive() {
        return process::usual_name(found.process.pid);
    }
    String::from_utf8_lossy(snapshot.header.exe()).rsplit('/').next().unwrap_or("?").to_owned()
}

fn print_table(rows: &[Row], args: &PsArgs) {
    if rows.is_empty() {
        note!(
            "{}",
            if args.dead {
                "no ended process left its state behind"
            } else {
                "no running process carries the probe; start one with `heapwise run -- PROGRAM`, \
                 or with LD_PRELOAD=$(heapwise preload)"
            }
        );
        return;
    }
    // Users and inner numbers matter only where there are others.
    let place = |uid: &str, inner_pid: &str| match args.all {
        true => format!("{uid:>7} {inner_pid:>8} "),
        false => String::new(),
    };
    say!(
        "{:>8} {}{:<20} {:<8} {:>8} {:<6} {:>10} {:>12} {:<10} LEASES",
        "PID",
        place("USER", "INSIDE"),
        "PROGRAM",
        "MODE",
        "RATE",
        "INDEX",
        "LIVE",
        "AGE",
        "STATE"
    );
    for row in rows {
        let rate = row.rate.map_or("-".to_owned(), |rate| quantity::bytes(rate as f64));
        say!(
            "{:>8} {}{:<20} {:<8} {:>8} {:<6} {:>10} {:>12} {:<10} {}",
            row.pid,
            place(&row.uid.to_string(), &row.inner_pid.to_string()),
            row.program,
            row.mode,
            rate,
            row.index.map_or("-", IndexKind::name),
            quantity::bytes(row.live_bytes as f64),
            quantity::duration(row.age),
            row.state,
            lease_list(&row.leases)
        );
    }
}

fn print_json(rows: &[Row]) {
    let rows: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            serde_json::json!({
                "pid": row.pid, "inner_pid": row.inner_pid, "uid": row.uid, "program": row.program, "mode": row.mode, "rate": row.rate,
                "index": row.index.map(IndexKind::name),
                "live_bytes": row.live_bytes, "age_seconds": row.age.as_secs(), "state": row.state,
                "leases": row.leases.iter().map(lease_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    console::print_json(&serde_json::Value::from(rows));
}

/// `collect 71 (sampled), run 70 (exact)`; `-` without a lease.
fn lease_list(leases: &[Lease]) -> String {
    let one = |lease: &Lease| {
        format!("{} {} ({})", lease.controller.name(), lease.holder.pid, lease.demand.mode.name())
    };
    if leases.is_empty() { "-".into() } else { leases.iter().map(one).collect::<Vec<_>>().join(", ") }
}

fn lease_json(lease: &Lease) -> serde_json::Value {
    let rate = (lease.demand.mode == Mode::Sampled).then_some(lease.demand.sample_bytes);
    serde_json::json!({
        "command": lease.controller.name(), "pid": lease.holder.pid, "mode": lease.demand.mode.name(),
        "rate": rate,
    })
}
