//! The flame graph, in any of its four shapes.

use heapwise_profile::view::flame::{Shape, flame};
use heapwise_render::flame::columns;

use crate::bounds;
use crate::encode;
use crate::error::{HttpError, Result};
use crate::http::{Request, Response};
use crate::query_params::pattern;
use heapwise_capture::report_input::Report;

/// Answers `GET …/flame?shape=topdown|bottomup|callers|callees&pivot=RE`; `format=svg` and `png`
/// are pictures of it.
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
    let program = report.profile.meta.title();
    match request.query.given("format").unwrap_or("json") {
        "json" => {}
        "svg" => return Ok(Response::picture(encode::flame_svg(&report.tree(), &shape, program))),
        "png" => return encode::flame_png(&report.tree(), &shape, program).map(Response::png),
        other => return Err(HttpError::bad(format!("no format `{other}`; there are json, svg, png"))),
    }
    let min_share = request.query.given("min_share").and_then(|text| text.parse().ok()).unwrap_or(0.0);
    let flame = flame(&report.tree(), &shape, bounds::flame_detail(min_share));
    Ok(Response::json(columns(&flame)))
}
