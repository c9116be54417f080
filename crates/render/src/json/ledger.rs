//! The ledger of a process as JSON.

use heapwise_profile::ledger::fragmentation::{Fragmentation, FragmentationRow};
use heapwise_profile::ledger::{HeapPages, Ledger, Line, Part};
use serde_json::{Value, json};

/// Parts of a line at most.
const MOST_PARTS: usize = 100;

/// `{"resident", "pss", "swap", "lazily_free", "untouched", "basis", "lines": [{"kind", "name",
/// "bytes", "about", "parts", "calls", "last_call_ms"}], "calls", "pages"}`. The bytes of the lines
/// add up to `resident`; recorded calls mapped the memory of a line, the last of them so long after
/// the start of the process. `calls` sums up `madvise` and `memfd_create`.
#[must_use]
pub fn ledger(ledger: &Ledger) -> Value {
    let part = |part: &Part| json!({ "name": part.name, "bytes": part.bytes });
    let line = |line: &Line| {
        let calls = ledger.mapping_calls(&line.name);
        json!({
            "calls": calls.map(|(count, _)| count), "last_call_ms": calls.map(|(_, last_ms)| last_ms),
            "kind": line.kind.key(), "name": line.name, "bytes": line.bytes, "about": line.kind.about(),
            "parts": line.parts.iter().take(MOST_PARTS).map(part).collect::<Vec<_>>(),
        })
    };
    json!({
        "resident": ledger.resident,
        "pss": ledger.proportional,
        "swap": ledger.swapped,
        "lazily_free": ledger.lazily_free,
        "untouched": ledger.untouched,
        "basis": ledger.basis.name(),
        "calls": super::memory_calls::call_sums(&ledger.calls),
        "lines": ledger.lines.iter().map(line).collect::<Vec<_>>(),
        "pages": ledger.pages.as_ref().map(pages),
    })
}

/// `{"heap", "live", "fragmentation", "free", "pages", "rows": [{"name", "pinned", "returned",
/// "live", "blocks"}], "dropped"}`.
#[must_use]
pub fn fragmentation(view: &Fragmentation) -> Value {
    let row = |row: &FragmentationRow| {
        json!({
            "name": row.name, "pinned": row.pinned, "returned": row.returned, "live": row.live,
            "blocks": row.blocks,
        })
    };
    json!({
        "heap": view.heap,
        "live": view.live,
        "fragmentation": view.fragmentation,
        "free": view.free,
        "pages": pages(&view.pages),
        "rows": view.rows.iter().map(row).collect::<Vec<_>>(),
        "dropped": view.dropped,
    })
}

fn pages(pages: &HeapPages) -> Value {
    json!({ "page_bytes": pages.page_bytes, "empty": pages.empty, "quarters": pages.quarters })
}
