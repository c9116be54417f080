//! The histogram of block sizes, and the sites of the largest blocks.

use heapwise_profile::view::sizes::Sizes;

use super::TextOptions;
use super::table::Table;
use heapwise_profile::quantity;

use crate::amount::percent;

/// Columns of the longest bar.
const BAR: f64 = 30.0;

/// One row a size class with a bar by bytes, then the largest blocks.
#[must_use]
pub fn sizes(view: &Sizes, options: &TextOptions) -> String {
    let mut out = if options.total { options.total_line(&view.summary, "") } else { String::new() };
    let total: f64 = view.classes.iter().map(|class| class.bytes).sum();
    let largest = view.classes.iter().map(|class| class.bytes).fold(0.0, f64::max);
    let mut table = Table::default();
    table.push(["block size", "objects", "bytes", "%", ""].map(str::to_owned));
    for class in &view.classes {
        let width = if largest > 0.0 { (class.bytes / largest * BAR).ceil() } else { 0.0 };
        table.push([
            format!("{}..{}", class.min, class.max),
            format!("{:.0}", class.objects),
            quantity::bytes(class.bytes),
            percent(class.bytes, total),
            "█".repeat(width as usize),
        ]);
    }
    table.write(&mut out);
    out += "\nLargest blocks\n";
    let mut table = Table::default();
    table.push(["block", "objects", "bytes", "site"].map(str::to_owned));
    for site in &view.largest {
        table.push([
            quantity::bytes(site.block_bytes as f64),
            format!("{:.0}", site.objects),
            quantity::bytes(site.bytes),
            site.site.label.clone(),
        ]);
    }
    table.write(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use heapwise_profile::{CallTree, Query, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    #[test]
    fn bars_are_as_long_as_their_share() {
        let program = profile("main;f 6000 100\nmain;g 3000 100");
        let query = Query::default();
        let view = view::sizes::sizes(&program, &CallTree::new(&program, &query), &query);
        let text = sizes(&view, &TextOptions { total: false, ..TextOptions::default() });
        let rows: Vec<&str> = text.lines().skip(1).take(2).collect();
        assert_eq!(rows[0], format!("    17..32      100  2.93 KiB  33.3%  {}", "█".repeat(15)));
        assert_eq!(rows[1], format!("    33..64      100  5.86 KiB  66.7%  {}", "█".repeat(30)));
        assert!(text.ends_with(" 60 B      100  5.86 KiB  f\n 30 B      100  2.93 KiB  g\n"), "{text}");
    }
}
