//! The flame graph as JSON, in columns: a million boxes as a few arrays of numbers, written without
//! a tree of JSON values in between.

use std::fmt::Write as _;

use heapwise_profile::Frame;
use heapwise_profile::metric::Unit;
use heapwise_profile::view::flame::{Flame, FlameBox};
use serde_json::{Value, json};

use super::palette::Palette;
use crate::color::Color;

/// `{sample_type, unit, grand_total, total, base_total, dropped, palette, frames, boxes}`. Boxes
/// come depth first, siblings largest first: a child starts where its elder sibling ends. `frames`
/// and `boxes` are objects with one array per field.
#[must_use]
pub fn columns(flame: &Flame) -> String {
    let palette = Palette::new(flame);
    let mut out = String::with_capacity(flame.boxes.len() * 24 + 8192);
    let mut head = json!({
        "sample_type": flame.totals.metric,
        "unit": match flame.totals.unit { Unit::Bytes => "bytes", Unit::Objects => "objects" },
        "grand_total": flame.totals.grand_total.value.round() as i64,
        "total": flame.totals.total.value.round() as i64,
        "base_total": flame.totals.total.base.round() as i64,
        "dropped": flame.dropped,
        "palette": palette_json(&palette),
        "frames": frames_json(flame),
    });
    if !palette.frames.is_empty() {
        head["frames"]["color"] = palette.frames.into();
    }
    out += &head.to_string();
    out.pop();
    out += ",\"boxes\":{";
    column(&mut out, "frame", &flame.boxes, |item| i64::from(item.frame));
    column(&mut out, "depth", &flame.boxes, |item| i64::from(item.depth));
    column(&mut out, "width", &flame.boxes, |item| item.width.round() as i64);
    if flame.totals.compared {
        column(&mut out, "sum", &flame.boxes, |item| item.sum.value.round() as i64);
        column(&mut out, "base", &flame.boxes, |item| item.sum.base.round() as i64);
    }
    column(&mut out, "own", &flame.boxes, |item| item.own.value.round() as i64);
    // The last column's comma.
    out.pop();
    out.push_str("}}");
    out
}

fn frames_json(flame: &Flame) -> Value {
    let texts = |of: fn(&Frame) -> &str| Value::from_iter(flame.frames.iter().map(|frame| of(frame)));
    json!({
        "name": texts(|frame| &frame.label),
        "module": texts(|frame| &frame.module),
        "file": texts(|frame| &frame.file),
        "line": Value::from_iter(flame.frames.iter().map(|frame| frame.line)),
    })
}

fn palette_json(palette: &Palette) -> Value {
    let colors = |list: &[Color]| Value::from_iter(list.iter().map(Color::to_string));
    let entry = |(label, color): &(String, usize)| json!({ "label": label, "color": color });
    json!({
        "light": colors(&palette.light),
        "dark": colors(&palette.dark),
        "legend": palette.legend.iter().map(entry).collect::<Vec<_>>(),
    })
}

fn column(out: &mut String, name: &str, boxes: &[FlameBox], value: impl Fn(&FlameBox) -> i64) {
    let _ = write!(out, "\"{name}\":[");
    for (at, item) in boxes.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let _ = write!(out, "{}", value(item));
    }
    out.push_str("],");
}

#[cfg(test)]
mod tests {
    use heapwise_profile::fixture::profile;
    use heapwise_profile::view::flame::{Detail, Shape, flame};
    use heapwise_profile::{CallTree, Query};

    use super::*;

    #[test]
    fn the_documented_form() {
        let tree = CallTree::new(&profile("main;f 3 1\nmain 1 1"), &Query::default());
        let value: Value =
            serde_json::from_str(&columns(&flame(&tree, &Shape::TopDown, Detail::ALL))).expect("JSON");
        assert_eq!((&value["total"], &value["unit"]), (&json!(4), &json!("bytes")));
        assert_eq!(value["frames"]["name"], json!(["main", "f"]));
        assert_eq!(
            value["boxes"],
            json!({ "frame": [0, 1], "depth": [0, 1], "width": [4, 3], "own": [1, 3] })
        );
        let color = value["frames"]["color"][0].as_u64().expect("an index") as usize;
        assert!(value["palette"]["light"][color].as_str().is_some_and(|color| color.starts_with('#')));
    }

    #[test]
    fn a_comparison_has_both_sides() {
        let tree = CallTree::compare(&profile("f 3 1"), Some(&profile("f 1 1")), &Query::default());
        let value: Value =
            serde_json::from_str(&columns(&flame(&tree, &Shape::TopDown, Detail::ALL))).expect("JSON");
        assert_eq!((&value["boxes"]["sum"], &value["boxes"]["base"]), (&json!([2]), &json!([1])));
        assert_eq!(value["frames"]["color"], Value::Null);
    }
}
