//! `/metrics`: the ledgers of all live processes in Prometheus's text format.

use std::fmt::Write as _;
use std::sync::Arc;

use heapwise_profile::ledger::Ledger;
use heapwise_profile::ledger::memory_calls::sums;

use crate::context::Context;
use crate::http::Response;
use crate::source::{Facts, Source};

/// Answers `/metrics`. Processes that end meanwhile are left out.
pub(crate) fn answer(context: &Context) -> Response {
    let ledgers = ledgers(context);
    let mut out = String::new();
    for (name, about) in [
        ("live", "Live bytes in recorded blocks, exact or estimated"),
        ("resident", "Resident bytes by line of the ledger; the lines add up to the RSS"),
        ("proportional", "Resident bytes, shared pages divided by their users (PSS)"),
        ("swapped", "Bytes swapped out"),
    ] {
        let _ = writeln!(out, "# HELP heapwise_{name}_bytes {about}\n# TYPE heapwise_{name}_bytes gauge");
        for (facts, ledger) in &ledgers {
            samples(&mut out, name, facts, ledger);
        }
    }
    for (name, about) in [
        ("bytes", "Bytes of madvise (DONTNEED, FREE, REMOVE) and memfd_create"),
        ("calls", "Calls of madvise (DONTNEED, FREE, REMOVE) and memfd_create"),
    ] {
        let _ = writeln!(out, "# HELP heapwise_memory_call_{name}_total {about}");
        let _ = writeln!(out, "# TYPE heapwise_memory_call_{name}_total counter");
        for (facts, ledger) in &ledgers {
            memory_calls(&mut out, name, facts, ledger);
        }
    }
    Response::text(out)
}

fn ledgers(context: &Context) -> Vec<(Facts, Ledger)> {
    let live = |source: &Arc<dyn Source>| {
        let facts = source.facts().ok().filter(Facts::is_live)?;
        Some((facts, source.ledger().ok().flatten()?))
    };
    context.sources.list().iter().filter_map(live).collect()
}

/// Sums of each call, those of the allocator apart from those of the program.
fn memory_calls(out: &mut String, name: &str, facts: &Facts, ledger: &Ledger) {
    let process = process_labels(facts);
    for (kind, sum) in sums(&ledger.calls) {
        let (program, allocator) = match name {
            "bytes" => (sum.bytes, sum.allocator_bytes),
            _ => (sum.count, sum.allocator_count),
        };
        let call = kind.name();
        for (by, value) in [("program", program), ("allocator", allocator)] {
            let labels = format!("{process},call=\"{call}\",by=\"{by}\"");
            let _ = writeln!(out, "heapwise_memory_call_{name}_total{{{labels}}} {value}");
        }
    }
}

fn process_labels(facts: &Facts) -> String {
    format!("pid=\"{}\",program=\"{}\"", facts.pid.unwrap_or(0), escaped(&facts.title))
}

fn samples(out: &mut String, name: &str, facts: &Facts, ledger: &Ledger) {
    let process = process_labels(facts);
    let mut sample = |labels: &str, value: u64| {
        let _ = writeln!(out, "heapwise_{name}_bytes{{{process}{labels}}} {value}");
    };
    match name {
        "live" => sample("", facts.live_bytes.unwrap_or(0)),
        "proportional" => sample("", ledger.proportional),
        "swapped" => sample("", ledger.swapped),
        _ => ledger.lines.iter().for_each(|line| {
            sample(&format!(",kind=\"{}\",line=\"{}\"", line.kind.key(), escaped(&line.name)), line.bytes);
        }),
    }
}

/// The value of a label, without what would end it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_end_early() {
        assert_eq!(escaped("a\"} 1\n\\"), "a\\\"} 1\\n\\\\");
    }
}
