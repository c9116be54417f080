//! Flame graphs: an interactive SVG for a quick look or a document, and a page with everything.
//! Both and the server's page have one palette, one rule for labels and one JSON form; the root is
//! on top.

mod columns;
mod label;
mod page;
mod palette;
mod svg;

pub use columns::columns;
pub use page::page;
pub use svg::svg;

use heapwise_profile::view::flame::Detail;

/// Boxes below this share of the whole are less than a third of a pixel wide in an SVG.
pub const SVG_DETAIL: Detail = Detail { min_share: 0.000_25, most_boxes: 50_000 };
/// A page can be zoomed into: keep what a zoom can make visible, within a few megabytes.
pub const PAGE_DETAIL: Detail = Detail { min_share: 0.000_01, most_boxes: 100_000 };

/// Labels and colors for scripts: the exported page and the SVG embed this file, the server's page
/// imports it.
const DRAWING: &str = include_str!("flame/script/drawing.js");

/// A script without its module syntax and types: several in a row make one script.
fn bundled(module: &str) -> String {
    let mut out = String::with_capacity(module.len());
    for line in module.lines().filter(|line| !line.starts_with("import ") && !line.starts_with("/** @import"))
    {
        out += line.strip_prefix("export ").unwrap_or(line);
        out.push('\n');
    }
    out
}
