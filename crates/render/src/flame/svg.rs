//! The flame graph as one SVG with its own script: click to zoom, search, tooltips.

use heapwise_profile::view::flame::{Flame, FlameBox};

use super::palette::Palette;
use super::{DRAWING, bundled, label};
use crate::amount::{self, percent};
use crate::font;
use crate::svg::{Short, escape};

const WIDTH: f64 = 1200.0;
const SIDE: f64 = 10.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 74.0;
const FOOT: f64 = 30.0;
const FONT: f64 = 11.0;
/// Boxes narrower than this are not worth a level of their own; `svg.js` has the same number.
const READABLE: f64 = 4.0;
const SCRIPT: &str = include_str!("svg.js");
const STYLE: &str = ".f{cursor:pointer}.f:hover rect{stroke:#1d1d1b;stroke-width:1}\
.f.dim{opacity:.45}.f.hit rect{fill:#c77dff}.tool{cursor:pointer;fill:#555}.tool:hover{fill:#000}";

/// The flame graph as a stand-alone SVG document.
#[must_use]
pub fn svg(flame: &Flame, title: &str) -> String {
    let levels = readable_levels(flame);
    let height = HEAD + f64::from(levels) * ROW + FOOT;
    let total = amount::label(flame.totals.total.value, flame.totals.unit);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
         width=\"{WIDTH}\" height=\"{0}\" viewBox=\"0 0 {WIDTH} {0}\" font-family=\"{1}\" \
         font-size=\"{FONT}\" data-side=\"{SIDE}\" data-head=\"{HEAD}\" data-row=\"{ROW}\" data-foot=\"{FOOT}\" data-total=\"{2}\">\n<title>{3}</title>\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{4}\" y=\"26\" font-size=\"17\" text-anchor=\"middle\">{3}</text>\n\
         <text x=\"{4}\" y=\"46\" fill=\"#555\" text-anchor=\"middle\">{5}: {total}</text>\n\
         <text id=\"reset\" class=\"tool\" x=\"{SIDE}\" y=\"26\" visibility=\"hidden\">⟲ show all</text>\n\
         <text id=\"search\" class=\"tool\" x=\"{6}\" y=\"26\" text-anchor=\"end\" visibility=\"hidden\">search (/)</text>\n",
        Short(height),
        font::FAMILY,
        flame.width().round(),
        escape(title),
        Short(WIDTH / 2.0),
        escape(amount::metric_words(&flame.totals.metric)),
        Short(WIDTH - SIDE),
    );
    let palette = Palette::new(flame);
    push_legend(&mut out, &palette);
    for item in &flame.boxes {
        let is_shown = item.depth < levels;
        push_box(&mut out, flame, item, &palette.light[palette.index(item)].to_string(), is_shown);
    }
    out += &format!(
        "<text id=\"details\" x=\"{SIDE}\" y=\"{0}\">&#160;</text>\n\
         <text id=\"matched\" x=\"{1}\" y=\"{0}\" text-anchor=\"end\">&#160;</text>\n\
         <script><![CDATA[\n{2}{SCRIPT}]]></script>\n</svg>\n",
        Short(height - 10.0),
        Short(WIDTH - SIDE),
        bundled(DRAWING),
    );
    out
}

/// Swatches with their meaning, in one line above the boxes.
fn push_legend(out: &mut String, palette: &Palette) {
    let mut x = SIDE;
    for (label, index) in &palette.legend {
        let end = x + 14.0 + font::width(label, FONT);
        if end > WIDTH - SIDE {
            return;
        }
        *out += &format!(
            "<rect x=\"{0}\" y=\"56\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{1}\"/>\
             <text x=\"{2}\" y=\"65\" fill=\"#555\">{3}</text>\n",
            Short(x),
            palette.light[*index],
            Short(x + 14.0),
            escape(label),
        );
        x = end + 14.0;
    }
}

/// Levels down to the last one with a box that can be seen. Deeper ones appear when a box is zoomed
/// into.
fn readable_levels(flame: &Flame) -> u32 {
    let scale = (WIDTH - 2.0 * SIDE) / flame.width().max(f64::MIN_POSITIVE);
    let readable = flame.boxes.iter().filter(|item| item.width * scale >= READABLE);
    readable.map(|item| item.depth + 1).max().unwrap_or(1)
}

fn push_box(out: &mut String, flame: &Flame, item: &FlameBox, fill: &str, is_shown: bool) {
    let frame = &flame.frames[item.frame as usize];
    let scale = (WIDTH - 2.0 * SIDE) / flame.width().max(f64::MIN_POSITIVE);
    let (x, width) = (SIDE + item.start * scale, item.width * scale);
    let y = HEAD + f64::from(item.depth) * ROW;
    let sign = if flame.totals.compared && item.sum.value > 0.0 { "+" } else { "" };
    let amount = sign.to_owned() + &amount::label(item.sum.value, flame.totals.unit);
    *out += &format!(
        "<g class=\"f\"{} data-s=\"{}\" data-w=\"{}\" data-d=\"{}\" \
         data-n=\"{}\" data-a=\"{amount}\"><title>{}</title>\
         <rect x=\"{x:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\" fill=\"{fill}\" rx=\"1.5\"/>",
        if is_shown { "" } else { " style=\"display:none\"" },
        item.start.round(),
        item.width.round(),
        item.depth,
        escape(&frame.label),
        escape(&tooltip(flame, item)),
        Short(y),
        (width - 0.4).max(0.2),
        Short(ROW - 1.0),
    );
    *out += &format!(
        "<text x=\"{:.1}\" y=\"{}\">{}</text></g>\n",
        x + 3.0,
        Short(y + ROW - 5.0),
        escape(&label::fit(&frame.label, &amount, width - 6.0, FONT)),
    );
}

fn tooltip(flame: &Flame, item: &FlameBox) -> String {
    let frame = &flame.frames[item.frame as usize];
    let totals = &flame.totals;
    let amount = |value: f64| amount::label(value, totals.unit);
    let module = if frame.module.is_empty() { String::new() } else { format!(" [{}]", frame.module) };
    if totals.compared {
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
        percent(item.sum.value, totals.whole()),
    )
}

#[cfg(test)]
mod tests {
    use heapwise_profile::fixture::profile;
    use heapwise_profile::view::flame::{Detail, Shape, flame};
    use heapwise_profile::{CallTree, Query, query::NameStyle};

    use super::*;

    #[test]
    fn levels_of_narrow_boxes_appear_on_a_zoom_only() {
        let deep: Vec<String> = (0..200).map(|level| format!("deep{level}")).collect();
        let folded = format!("main;wide 99999 1\nmain;{} 100 1", deep.join(";"));
        let tree = CallTree::new(&profile(&folded), &Query::default());
        let flame = flame(&tree, &Shape::TopDown, Detail::ALL);
        let svg = svg(&flame, "app");
        assert!(svg.contains("viewBox=\"0 0 1200 138\""), "{}", &svg[..300]);
        assert_eq!(svg.matches("display:none").count(), 199);
        assert!(svg.contains("data-n=\"deep199\""));
    }

    #[test]
    fn boxes_have_tooltips_and_hostile_names_are_escaped() {
        let query = Query { names: NameStyle::Full, ..Query::default() };
        let tree = CallTree::new(&profile("main;f<&> 3 1\nmain 1 1"), &query);
        let flame = flame(&tree, &Shape::TopDown, Detail::ALL);
        let svg = svg(&flame, "a<b");
        assert!(svg.contains("<title>a&lt;b</title>"));
        assert!(svg.contains("<title>main [app] 4 B (100.0%)</title>"), "{svg}");
        assert!(svg.contains("<title>f&lt;&amp;&gt; [app] 3 B (75.0%)</title>"), "{svg}");
        assert!(crate::raster::png(&svg, 0.5).is_ok());
    }
}
