//! The heap over time: as a table, as a chart of characters, as a picture.

mod chart;
mod picture;
mod rate;
pub mod resident;

pub use chart::chart;
pub use picture::{Picture, svg};

use heapwise_profile::recording::Timeline;
use serde_json::{Value, json};

use crate::text::TextOptions;
use crate::text::table::Table;
use heapwise_profile::quantity;

/// One row per step: time, highest live bytes, allocations, resident bytes, bytes allocated a
/// second, and a bar.
#[must_use]
pub fn table(timeline: &Timeline) -> String {
    const BAR: u64 = 40;
    let highest = timeline.peak().map_or(1, |step| step.max_live_bytes).max(1);
    let mut rows = Table::default();
    rows.push(["ms", "live bytes", "live", "allocs", "frees", "rss", "allocated/s", ""].map(str::to_owned));
    for step in &timeline.steps {
        let bar = step.max_live_bytes.saturating_mul(BAR).div_ceil(highest).min(BAR) as usize;
        rows.push([
            step.start_ms.to_string(),
            step.max_live_bytes.to_string(),
            quantity::bytes(step.max_live_bytes as f64),
            step.allocs.to_string(),
            step.frees.to_string(),
            quantity::bytes(step.rss_bytes as f64),
            quantity::bytes(step.alloc_bytes as f64 * 1000.0 / timeline.step_ms.max(1) as f64),
            "█".repeat(bar),
        ]);
    }
    let mut out = String::new();
    rows.write(&mut out, &TextOptions::default());
    out
}

/// `[[ms, bytes], …]`, as the gs driver's `get_all_time_size` gives it.
#[must_use]
pub fn data(timeline: &Timeline) -> Value {
    timeline.steps.iter().map(|step| json!([step.start_ms, step.max_live_bytes])).collect()
}
