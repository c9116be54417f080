//! Statistics of one process as sections of rows, for the page and the API.

use heapwise_capture::rss_breakdown::Part;
use heapwise_capture::segments::SegmentEntry;
use heapwise_capture::statistics::{self, Answered, Number, Statistics, Unit};
use serde_json::{Value, json};

use super::error::Result;

/// The sections of a process.
pub(super) fn sections(found: &SegmentEntry) -> Result<Vec<Value>> {
    let statistics = statistics::read(found)?;
    let mut sections = Vec::new();
    if statistics.answered != Answered::Never {
        sections.push(section(&allocator_title(&statistics), rows(&statistics.told)));
    }
    if let Some(breakdown) = &statistics.breakdown {
        let row = |part: &Part| json!({ "name": part.name, "value": part.bytes, "unit": "bytes", "about": part.about });
        sections.push(section("Where resident memory is", breakdown.parts.iter().map(row).collect()));
    }
    if !statistics.kernel.is_empty() {
        sections.push(section("Kernel", rows(&statistics.kernel)));
    }
    sections.push(section("Probe", rows(&statistics.probe)));
    Ok(sections)
}

/// A program that does not allocate answers later; until then its last answer is shown.
fn allocator_title(statistics: &Statistics) -> String {
    let when = if statistics.answered == Answered::Now { "" } else { ", at its last allocation" };
    format!("Allocator ({}{when})", statistics.allocator.name())
}

fn section(title: &str, rows: Vec<Value>) -> Value {
    json!({ "title": title, "rows": rows })
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
