//! Statistics of one process as sections of rows, for the page and the API.

use heapwise_capture::segments::SegmentEntry;
use heapwise_capture::statistics::{self, Answered, Number, Statistics, Unit};
use heapwise_profile::ledger::{Ledger, Line};
use serde_json::{Value, json};

use super::error::Result;

/// The sections of a process.
pub(super) fn sections(found: &SegmentEntry) -> Result<Vec<Value>> {
    let statistics = statistics::read(found)?;
    let mut sections = Vec::new();
    let told = if statistics.answered == Answered::Never { &[] } else { statistics.told.as_slice() };
    sections.push(allocator(&statistics, rows(told)));
    if let Some(memory) = &statistics.memory {
        let ledger = &memory.ledger;
        let row = |line: &Line| bytes_row(&line.name, line.bytes, line.kind.about());
        let lines = ledger.lines.iter().map(row).collect();
        sections.push(section("resident", "Where resident memory is", lines));
        sections.push(section("kernel", "Kernel", kernel_rows(ledger)));
    }
    sections.push(section("probe", "Probe", rows(&statistics.probe)));
    Ok(sections)
}

/// A program that does not allocate answers later; until then its last answer is shown.
fn allocator(statistics: &Statistics, rows: Vec<Value>) -> Value {
    let (key, when) = match statistics.answered {
        Answered::Now => ("allocator", ""),
        Answered::Before => ("allocator.before", ", at its last allocation"),
        Answered::Never => ("allocator.never", ", no numbers before the next allocation of the program"),
    };
    let name = statistics.allocator.name();
    let mut section = section(key, &format!("Allocator ({name}{when})"), rows);
    section["allocator"] = name.into();
    section
}

fn bytes_row(name: &str, bytes: u64, about: &str) -> Value {
    json!({ "name": name, "value": bytes, "unit": "bytes", "about": about })
}

fn kernel_rows(ledger: &Ledger) -> Vec<Value> {
    vec![
        bytes_row("resident", ledger.resident, "in physical memory (RSS)"),
        bytes_row("proportional", ledger.proportional, "resident, shared pages divided by their users (PSS)"),
        bytes_row("swapped", ledger.swapped, "swapped out"),
        bytes_row("lazily free", ledger.lazily_free, "resident until the kernel needs it (MADV_FREE)"),
        bytes_row("untouched", ledger.untouched, "in live blocks and not resident"),
    ]
}

fn section(key: &str, title: &str, rows: Vec<Value>) -> Value {
    json!({ "key": key, "title": title, "rows": rows })
}

fn rows(numbers: &[Number]) -> Vec<Value> {
    let row = |number: &Number| {
        let unit = match number.unit {
            Unit::Bytes => "bytes",
            Unit::Count => "objects",
            Unit::Nanoseconds => "nanoseconds",
        };
        let name = number.name.replace('_', " ");
        Some(json!({ "name": name, "value": number.value?, "unit": unit, "about": number.about }))
    };
    numbers.iter().filter_map(row).collect()
}
