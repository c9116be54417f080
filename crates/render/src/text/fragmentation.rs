//! Fragmentation by site as text.

use std::fmt::Write as _;

use heapwise_profile::ledger::fragmentation::Fragmentation;
use heapwise_profile::quantity;

/// The heap in one line, its pages in another, then a row per site.
#[must_use]
pub fn fragmentation(view: &Fragmentation) -> String {
    let bytes = |value: u64| quantity::bytes(value as f64);
    let mut out = format!(
        "Heap: {} resident; {} live, {} free on pages with live blocks, {} on empty pages\n",
        bytes(view.heap),
        bytes(view.live),
        bytes(view.fragmentation),
        bytes(view.free),
    );
    let [quarter, half, three_quarters, full] = view.pages.quarters;
    let _ = writeln!(
        out,
        "Pages of {}: {} empty, {quarter} up to 25 % full, {half} up to 50 %, {three_quarters} up to 75 %, \
         {full} fuller",
        bytes(view.pages.page_bytes),
        view.pages.empty,
    );
    let _ = writeln!(out, "{:>10} {:>10} {:>10} {:>10}  site", "pinned", "returnable", "live", "blocks");
    for row in &view.rows {
        let [pinned, returned, live] = [row.pinned, row.returned, row.live].map(bytes);
        let _ = writeln!(out, "{pinned:>10} {returned:>10} {live:>10} {:>10}  {}", row.blocks, row.name);
    }
    if view.dropped > 0 {
        let _ = writeln!(out, "{} more rows; -n 0 shows all", view.dropped);
    }
    out
}
