//! The histogram of block sizes, and the sites of the largest blocks.

use heapwise_profile::view::sizes::{SizeSource, Sizes};

use super::TextOptions;
use super::table::Table;
use heapwise_profile::quantity;

use crate::amount::percent;

/// Columns of the longest bar.
const BAR: f64 = 30.0;

/// One row a size class with a bar by bytes, then the largest blocks.
#[must_use]
pub fn sizes(view: &Sizes, options: &TextOptions) -> String {
    let mut out = options.header_lines(&view.totals);
    out += match view.source {
        SizeSource::Blocks | SizeSource::Process => "",
        SizeSource::Means => "Stacks that mix sizes count as blocks of their mean size\n",
    };
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
    table.write(&mut out, options);
    out += "\nLargest blocks\n";
    let mut table = Table::default();
    table.push(["min", "mean", "max", "objects", "bytes", "site"].map(str::to_owned));
    let size = |size: Option<u64>| size.map_or("-".to_owned(), |size| quantity::bytes(size as f64));
    for site in &view.largest {
        table.push([
            size(site.sizes.map(|sizes| sizes.min)),
            size(Some(site.mean())),
            size(site.sizes.map(|sizes| sizes.max)),
            format!("{:.0}", site.objects),
            quantity::bytes(site.bytes),
            site.site.label.clone(),
        ]);
    }
    table.write(&mut out, options);
    out
}

#[cfg(test)]
mod tests {
    use heapwise_profile::{CallTree, Profile, Query, SizeRange, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    #[test]
    fn bars_are_as_long_as_their_share() {
        let mut program = profile("main;f 6000 100\nmain;g 3000 100");
        let query = Query::default();
        let options = TextOptions { total: false, ..TextOptions::default() };
        let text = |program: &Profile| {
            sizes(&view::sizes::sizes(program, &CallTree::new(program, &query), &query), &options)
        };
        assert!(text(&program).starts_with("Stacks that mix sizes"));
        program.samples[0].sizes = Some(SizeRange::one(60));
        program.samples[1].sizes = Some(SizeRange::one(30));
        let text = text(&program);
        let rows: Vec<&str> = text.lines().skip(1).take(2).collect();
        assert_eq!(rows[0], format!("    17..32      100  2.93 KiB  33.3%  {}", "█".repeat(15)));
        assert_eq!(rows[1], format!("    33..64      100  5.86 KiB  66.7%  {}", "█".repeat(30)));
        let end = "60 B  60 B  60 B      100  5.86 KiB  f\n30 B  30 B  30 B      100  2.93 KiB  g\n";
        assert!(text.ends_with(end), "{text}");
    }
}
