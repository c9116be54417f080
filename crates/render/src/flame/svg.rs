//! The flame graph as one SVG with its own script: click to zoom, search, tooltips.

use heapwise_profile::view::flame::{Flame, FlameBox};

use super::{Colours, FlameOptions, fills};
use crate::amount::{label, percent};
use crate::font;
use crate::svg::{Short, escape};

const WIDTH: f64 = 1200.0;
const SIDE: f64 = 10.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 62.0;
const FOOT: f64 = 30.0;
const FONT: f64 = 11.0;
const SCRIPT: &str = include_str!("svg.js");
const STYLE: &str = ".f{cursor:pointer}.f:hover rect{stroke:#1d1d1b;stroke-width:1}\
.f.dim{opacity:.45}.f.hit rect{fill:#c77dff}.tool{cursor:pointer;fill:#555}.tool:hover{fill:#000}";

/// The flame graph as a stand-alone SVG document.
#[must_use]
pub fn svg(flame: &Flame, options: &FlameOptions) -> String {
    let height = HEAD + flame.levels() as f64 * ROW + FOOT;
    let total = label(flame.summary.total.value, flame.summary.unit);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
         width=\"{WIDTH}\" height=\"{0}\" viewBox=\"0 0 {WIDTH} {0}\" font-family=\"{1}\" \
         font-size=\"{FONT}\" data-side=\"{SIDE}\" data-total=\"{2}\">\n<title>{3}</title>\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{4}\" y=\"26\" font-size=\"17\" text-anchor=\"middle\">{3}</text>\n\
         <text x=\"{4}\" y=\"46\" fill=\"#555\" text-anchor=\"middle\">{5}: {total}</text>\n\
         <text id=\"reset\" class=\"tool\" x=\"{SIDE}\" y=\"26\" visibility=\"hidden\">⟲ show all</text>\n\
         <text id=\"search\" class=\"tool\" x=\"{6}\" y=\"26\" text-anchor=\"end\" visibility=\"hidden\">search (/)</text>\n",
        Short(height),
        font::FAMILY,
        flame.width().round(),
        escape(&options.title),
        Short(WIDTH / 2.0),
        escape(&flame.summary.metric),
        Short(WIDTH - SIDE),
    );
    if options.colours == Colours::Change {
        out += &format!("<text x=\"{SIDE}\" y=\"46\" fill=\"#555\">orange grew, blue shrank</text>\n");
    }
    let fills = fills(flame, options.colours);
    for (item, fill) in flame.boxes.iter().zip(&fills) {
        push_box(&mut out, flame, item, &fill.to_string(), options);
    }
    out += &format!(
        "<text id=\"details\" x=\"{SIDE}\" y=\"{0}\">&#160;</text>\n\
         <text id=\"matched\" x=\"{1}\" y=\"{0}\" text-anchor=\"end\">&#160;</text>\n\
         <script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n",
        Short(height - 10.0),
        Short(WIDTH - SIDE),
    );
    out
}

fn push_box(out: &mut String, flame: &Flame, item: &FlameBox, fill: &str, options: &FlameOptions) {
    let frame = &flame.frames[item.frame as usize];
    let scale = (WIDTH - 2.0 * SIDE) / flame.width().max(f64::MIN_POSITIVE);
    let (x, width) = (SIDE + item.start * scale, item.width * scale);
    let level = f64::from(item.depth);
    let level = if options.root_on_top { level } else { flame.levels() as f64 - 1.0 - level };
    let y = HEAD + level * ROW;
    *out += &format!(
        "<g class=\"f\" data-s=\"{}\" data-w=\"{}\" data-d=\"{}\"><title>{}</title>\
         <rect x=\"{x:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\" fill=\"{fill}\" rx=\"1.5\"/>",
        item.start.round(),
        item.width.round(),
        item.depth,
        escape(&tooltip(flame, item)),
        Short(y),
        (width - 0.4).max(0.2),
        Short(ROW - 1.0),
    );
    *out += &format!(
        "<text x=\"{:.1}\" y=\"{}\">{}</text></g>\n",
        x + 3.0,
        Short(y + ROW - 5.0),
        escape(&fitting(&frame.label, width - 6.0)),
    );
}

fn tooltip(flame: &Flame, item: &FlameBox) -> String {
    let frame = &flame.frames[item.frame as usize];
    let summary = &flame.summary;
    let amount = |value: f64| label(value, summary.unit);
    let module = if frame.module.is_empty() { String::new() } else { format!(" [{}]", frame.module) };
    if summary.compared {
        let (change, base) = (item.sum.value, item.sum.base);
        let sign = if change > 0.0 { "+" } else { "" };
        return format!(
            "{}{module} {sign}{} ({} before, {} after)",
            frame.label,
            amount(change),
            amount(base),
            amount(base + change),
        );
    }
    format!(
        "{}{module} {} ({})",
        frame.label,
        amount(item.sum.value),
        percent(item.sum.value, summary.whole()),
    )
}

/// As much of a name as fits: all, the part after the last `::`, the beginning of that; nothing
/// when that would be less than three letters.
fn fitting(name: &str, room: f64) -> String {
    let last = name.rsplit("::").next().unwrap_or(name);
    if room < 3.0 * FONT * 0.6 {
        return String::new();
    }
    if let Some(fits) = [name, last].into_iter().find(|text| font::width(text, FONT) <= room) {
        return fits.to_owned();
    }
    let room = room - font::width("…", FONT);
    let mut used = 0.0;
    let head: String = last
        .chars()
        .take_while(|c| {
            used += font::width(c.encode_utf8(&mut [0; 4]), FONT);
            used <= room
        })
        .collect();
    if head.chars().count() < 3 { String::new() } else { head + "…" }
}

#[cfg(test)]
mod tests {
    use heapwise_profile::fixture::profile;
    use heapwise_profile::view::flame::{Shape, flame};
    use heapwise_profile::{CallTree, Query, query::NameStyle};

    use super::*;

    #[test]
    fn boxes_have_tooltips_and_hostile_names_are_escaped() {
        let query = Query { names: NameStyle::Full, ..Query::default() };
        let tree = CallTree::new(&profile("main;f<&> 3 1\nmain 1 1"), &query);
        let flame = flame(&tree, &Shape::TopDown, 0.0);
        let svg = svg(&flame, &FlameOptions { title: "a<b".into(), ..FlameOptions::default() });
        assert!(svg.contains("<title>a&lt;b</title>"));
        assert!(svg.contains("<title>main [app] 4 B (100.0%)</title>"), "{svg}");
        assert!(svg.contains("<title>f&lt;&amp;&gt; [app] 3 B (75.0%)</title>"), "{svg}");
        assert!(crate::raster::png(&svg, 0.5).is_ok());
    }

    #[test]
    fn names_are_cut_to_their_box() {
        assert_eq!(fitting("main", 100.0), "main");
        assert_eq!(fitting("main", 10.0), "");
        assert_eq!(fitting("std::vector::push_back", 80.0), "push_back");
        let cut = fitting("a_rather_long_function_name", 80.0);
        assert!(cut.ends_with('…') && font::width(&cut, FONT) <= 80.0, "{cut}");
    }
}
