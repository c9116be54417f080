//! The flame graph as a self-contained page: data, style and script in one file, no network.

use heapwise_profile::view::flame::{Flame, FlameBox};
use serde_json::{Value, json};

use super::FlameOptions;
use crate::amount::label;
use crate::svg::escape;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page. `top_down` has callers at the root, `bottom_up` allocating frames; the user switches
/// between them.
#[must_use]
pub fn page(top_down: &Flame, bottom_up: &Flame, options: &FlameOptions) -> String {
    let summary = &top_down.summary;
    let data = json!({
        "metric": summary.metric,
        "unit": if label(1.0, summary.unit) == "1" { "objects" } else { "bytes" },
        "compared": summary.compared,
        "total": summary.total.value.round() as i64,
        "views": [tree(top_down), tree(bottom_up)],
    });
    let note = format!(
        "{}: {}{}",
        summary.metric,
        label(summary.total.value, summary.unit),
        match top_down.dropped {
            0 => String::new(),
            dropped => format!(" · {dropped} boxes too small to draw"),
        },
    );
    // In the order of the page: each marker is replaced in what follows the one before, so that
    // nothing in the data can be taken for a marker.
    let data = data.to_string().replace('<', "\\u003c");
    let mut out = String::with_capacity(data.len() + PAGE.len() + STYLE.len() + SCRIPT.len());
    let mut rest = PAGE;
    for (marker, text) in [
        ("{{title}}", escape(&options.title)),
        ("{{style}}", STYLE.to_owned()),
        ("{{heading}}", escape(&options.title)),
        ("{{note}}", escape(&note)),
        ("{{data}}", data),
        ("{{script}}", SCRIPT.to_owned()),
    ] {
        if let Some((before, after)) = rest.split_once(marker) {
            out += before;
            out += &text;
            rest = after;
        }
    }
    out + rest
}

/// Columns, one entry a box, depth first; a child starts where its elder sibling ends.
fn tree(flame: &Flame) -> Value {
    let column = |value: fn(&FlameBox) -> f64| -> Vec<i64> {
        flame.boxes.iter().map(|item| value(item).round() as i64).collect()
    };
    let mut modules: Vec<&str> = Vec::new();
    let module_of: Vec<usize> = flame
        .frames
        .iter()
        .map(|frame| {
            let known = modules.iter().position(|module| *module == frame.module);
            known.unwrap_or_else(|| {
                modules.push(&frame.module);
                modules.len() - 1
            })
        })
        .collect();
    let places: Vec<String> = flame
        .frames
        .iter()
        .map(|frame| match (frame.file.as_str(), frame.line) {
            ("", _) => String::new(),
            (file, 0) => file.to_owned(),
            (file, line) => format!("{file}:{line}"),
        })
        .collect();
    json!({
        "names": flame.frames.iter().map(|frame| &frame.label).collect::<Vec<_>>(),
        "places": places,
        "modules": modules,
        "moduleOf": module_of,
        "frame": flame.boxes.iter().map(|item| item.frame).collect::<Vec<_>>(),
        "depth": flame.boxes.iter().map(|item| item.depth).collect::<Vec<_>>(),
        "width": column(|item| item.width),
        "own": column(|item| item.own.value),
        "change": column(|item| item.sum.value),
        "base": column(|item| item.sum.base),
    })
}

#[cfg(test)]
mod tests {
    use heapwise_profile::fixture::profile;
    use heapwise_profile::view::flame::{Shape, flame};
    use heapwise_profile::{CallTree, Query, query::NameStyle};

    use super::*;

    #[test]
    fn nothing_in_a_name_can_leave_the_data() {
        let query = Query { names: NameStyle::Full, ..Query::default() };
        let mut program = profile("main;f 3 1");
        program.functions[1].name = "</script>{{script}}".to_owned();
        let tree = CallTree::new(&program, &query);
        let [down, up] = [Shape::TopDown, Shape::BottomUp].map(|shape| flame(&tree, &shape, 0.0));
        let page = page(&down, &up, &FlameOptions::default());
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.contains("\\u003c/script>{{script}}"));
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}
