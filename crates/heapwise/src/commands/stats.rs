//! `stats`: the probe's counters, and the allocator's own statistics.

use clap::Args;
use heapwise_capture::statistics::{self, Answered, Arena, Number, Statistics, Unit};
use heapwise_capture::target;
use heapwise_profile::ledger::memory_calls::{StackNames, merged};
use heapwise_profile::quantity;
use heapwise_render::{json as render_json, text};
use serde_json::{Map, Value, json};

use crate::console;
use crate::failure::Outcome;
use crate::symbols::SymbolArgs;

/// Options of `stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Pids or program names; every process with the probe when left out
    #[arg(value_name = "PID|NAME")]
    targets: Vec<String>,
    /// Print JSON
    #[arg(long, help_heading = "Output options")]
    json: bool,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Prints the statistics of each process.
pub(crate) fn run(args: &StatsArgs) -> Outcome {
    let found = target::processes_to_read(&args.targets)?;
    let mut all = found.iter().map(statistics::read).collect::<Result<Vec<_>, _>>()?;
    for memory in all.iter_mut().filter_map(|statistics| statistics.memory.as_mut()) {
        if !memory.ledger.calls.is_empty() || !memory.ledger.memfds.is_empty() {
            args.symbols.symbolize(&mut memory.stacks);
        }
    }
    if args.json {
        console::print_json(&all.iter().map(to_json).collect());
    } else {
        all.iter().for_each(print);
    }
    Ok(())
}

fn to_json(statistics: &Statistics) -> Value {
    let names = statistics.memory.as_ref().map(|memory| (&memory.ledger, StackNames::new(&memory.stacks)));
    let told = (statistics.answered == Answered::Now).then(|| numbers_json(&statistics.told));
    json!({
        "pid": statistics.pid,
        "program": statistics.program,
        "mode": statistics.mode.name(),
        "allocator": statistics.allocator.name(),
        "rss": statistics.resident_bytes,
        "probe": numbers_json(&statistics.probe),
        "allocator_stats": told,
        "arenas": statistics.arenas.iter().map(arena_json).collect::<Vec<_>>(),
        "ledger": statistics.memory.as_ref().map(|memory| render_json::ledger(&memory.ledger)),
        "memory_calls": names.as_ref().map(|(ledger, names)| render_json::memory_calls(&merged(&ledger.calls, names))),
        "memfds": names.as_ref().map(|(ledger, names)| render_json::memfds(&ledger.memfds, names)),
    })
}

fn numbers_json(numbers: &[Number]) -> Map<String, Value> {
    numbers.iter().map(|number| (number.name.to_owned(), number.value.into())).collect()
}

fn arena_json(arena: &Arena) -> Value {
    match *arena {
        Arena::Glibc { start, resident } => json!({ "start": start, "resident": resident }),
        Arena::Told { index, allocated, active, resident } => {
            json!({ "arena": index, "allocated": allocated, "active": active, "resident": resident })
        }
    }
}

fn print(statistics: &Statistics) {
    let (mode, allocator) = (statistics.mode.name(), statistics.allocator.name());
    say!("{} {} ({mode}, {allocator})", statistics.pid, statistics.program);
    if let Some(memory) = &statistics.memory {
        text::ledger::ledger(&memory.ledger).lines().for_each(|line| say!("{line}"));
        let names = StackNames::new(&memory.stacks);
        text::memory_calls::memory_calls(&memory.ledger, &names).lines().for_each(|line| say!("{line}"));
    }
    print_numbers("probe", &statistics.probe);
    if statistics.answered == Answered::Now {
        print_numbers("allocator", &statistics.told);
    }
    for (number, arena) in statistics.arenas.iter().enumerate() {
        let (number, resident, allocated) = match *arena {
            Arena::Glibc { resident, .. } => (number, resident, None),
            Arena::Told { index, allocated, resident, .. } => (index, resident, Some(allocated)),
        };
        let bytes = |bytes: u64| quantity::bytes(bytes as f64);
        let rest = allocated.map(|allocated| format!(", {} allocated", bytes(allocated))).unwrap_or_default();
        say!("    arena {number:<12} {resident:>14}  {} resident{rest}", bytes(resident));
    }
    if statistics.answered != Answered::Now {
        say!("  allocator statistics are pending until the program's next allocation");
    }
}

fn print_numbers(title: &str, numbers: &[Number]) {
    say!("  {title}");
    for Number { name, value, unit, .. } in numbers {
        match value {
            Some(value) if *unit == Unit::Bytes => print_bytes(name, *value),
            Some(value) => say!("    {name:<18} {value:>14}"),
            None => say!("    {name:<18} {:>14}", "not told"),
        }
    }
}

fn print_bytes(name: &str, value: i64) {
    say!("    {name:<18} {value:>14}  {}", quantity::bytes(value as f64));
}
