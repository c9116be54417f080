//! The flame graph in columns: a million boxes as a few arrays of numbers, written without a tree
//! of JSON values in between.

use std::fmt::Write as _;

use heapwise_profile::view::flame::{Flame, FlameBox, Shape, flame};
use serde_json::Value;

use crate::error::{HttpError, Result};
use crate::http::{Request, Response};
use crate::query_params::pattern;
use heapwise_capture::report_input::Report;

/// Answers `GET …/flame?shape=topdown|bottomup|callers|callees&pivot=RE`.
pub(super) fn answer(request: &Request, report: &Report) -> Result {
    let pivot = || pattern("pivot", request.query.get("pivot").unwrap_or_default());
    let shape = match request.query.given("shape").unwrap_or("topdown") {
        "topdown" => Shape::TopDown,
        "bottomup" => Shape::BottomUp,
        "callers" => Shape::Callers(pivot()?),
        "callees" => Shape::Callees(pivot()?),
        other => {
            return Err(HttpError::bad(format!(
                "no shape `{other}`; there are topdown, bottomup, callers, callees"
            )));
        }
    };
    let min_share = request.query.given("min_share").and_then(|text| text.parse().ok()).unwrap_or(0.0);
    let flame = flame(&report.tree(), &shape, min_share);
    Ok(Response::json(columns(&flame, report.baseline.is_some())))
}

fn columns(flame: &Flame, compared: bool) -> String {
    let summary = &flame.summary;
    let mut out = String::with_capacity(flame.boxes.len() * 24 + 4096);
    let _ = write!(
        out,
        "{{\"sample_type\":{},\"unit\":\"{}\",\"grand_total\":{},\"total\":{},\"base_total\":{},\"dropped\":{},\"frames\":{{",
        Value::from(summary.metric.as_str()),
        super::summary::unit_name(summary.unit),
        summary.grand_total.value.round() as i64,
        summary.total.value.round() as i64,
        summary.total.base.round() as i64,
        flame.dropped
    );
    let texts = |of: fn(&heapwise_profile::Frame) -> &str| {
        Value::from_iter(flame.frames.iter().map(|frame| of(frame))).to_string()
    };
    let lines = Value::from_iter(flame.frames.iter().map(|frame| frame.line));
    let _ = write!(
        out,
        "\"name\":{},\"module\":{},\"file\":{},\"line\":{lines}}},\"boxes\":{{",
        texts(|frame| &frame.label),
        texts(|frame| &frame.module),
        texts(|frame| &frame.file),
    );
    column(&mut out, "frame", &flame.boxes, |item| i64::from(item.frame));
    column(&mut out, "depth", &flame.boxes, |item| i64::from(item.depth));
    column(&mut out, "width", &flame.boxes, |item| item.width.round() as i64);
    if compared {
        column(&mut out, "sum", &flame.boxes, |item| item.sum.value.round() as i64);
        column(&mut out, "base", &flame.boxes, |item| item.sum.base.round() as i64);
    }
    column(&mut out, "own", &flame.boxes, |item| item.own.value.round() as i64);
    // The last column's comma.
    out.pop();
    out.push_str("}}");
    out
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
