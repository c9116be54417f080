//! Views of the selected profile as JSON, rendered once per distinct request.

use heapwise_profile::Metric;
use heapwise_profile::view::leaks::LeakClass;
use heapwise_profile::view::{self, OwnPlaces};
use heapwise_render::json;
use serde_json::Value;

use super::{export, flame, listing, summary, unknown};
use crate::bounds;
use crate::context::Context;
use crate::encode;
use crate::error::Result;
use crate::http::{Request, Response};
use crate::memory_budget::view_bytes;
use crate::render_key::RenderKey;
use crate::report;
use crate::source::Source;
use heapwise_capture::report_input::Report;

const VIEWS: [&str; 12] = [
    "summary", "findings", "top", "flame", "tree", "graph", "leaks", "list", "sizes", "threads", "modules",
    "export",
];

/// Answers `GET …/<view>`.
pub(super) fn answer(context: &Context, request: &Request, source: &dyn Source, view: &str) -> Result {
    if !VIEWS.contains(&view) {
        return Err(unknown());
    }
    let key = RenderKey::new(&context.profiles.budget, &context.sources, request, source, view)?;
    Ok(context.rendered(request, &key, || render(context, request, source, view)))
}

fn render(context: &Context, request: &Request, source: &dyn Source, view: &str) -> Result {
    let report = match view {
        "sizes" => report::load_by_size(&context.profiles, &context.sources, source, &request.query)?,
        _ => report::load(&context.profiles, &context.sources, source, &request.query)?,
    };
    let (profile, query) = (&report.profile, &report.query);
    let _room = context
        .memory
        .reserve(view_bytes([Some(&**profile), report.baseline.as_deref()].into_iter().flatten()));
    let value = match view {
        "summary" => return Ok(Response::json(summary::summary(&report, &request.query).to_string())),
        "findings" => return summary::findings(source, &report, &request.query),
        "flame" => return flame::answer(request, &report),
        "graph" => return graph(request, &report),
        "export" => return export::answer(request, &report, context.memory.response()),
        "list" => listing::listing(request, &report)?,
        "top" => top(&report),
        "tree" => json::tree(&bounds::neighbors(view::peek::tree(&report.tree(), query))),
        "leaks" => {
            let (class, query) = (LeakClass::of(profile), bounds::sites(query));
            let (tree, code) = (report.tree(), report.code());
            let places = OwnPlaces::new(profile, &code, &tree, &query);
            json::leaks(&view::leaks::leaks(&tree, class, &query, bounds::STACKS).with_own(&places))
        }
        "sizes" => json::sizes(&view::sizes::sizes(profile, &report.tree(), query)),
        "threads" => json::threads(&view::threads::threads(profile, &bounds::rows(query))),
        _ => json::modules(&view::modules::modules(profile, report.baseline.as_deref(), query)),
    };
    Ok(Response::json(with_base(value, &report).to_string()))
}

/// The total of the base, which a difference is a share of.
fn with_base(mut value: Value, report: &Report) -> Value {
    let base = match report.query.metric {
        Metric::Extra(number) => {
            let column = report.profile.extra.get(usize::from(number));
            column.map_or(0.0, |column| report.base_sum(&column.name))
        }
        metric => report.baseline.as_ref().map_or(0.0, |base| base.total().get(metric)),
    };
    value["base_total"] = Value::from(base.round() as i64);
    value
}

fn top(report: &Report) -> Value {
    let (tree, code) = (report.tree(), report.code());
    let places = OwnPlaces::new(&report.profile, &code, &tree, &report.query);
    json::top(&view::top::top(&tree, &bounds::rows(&report.query)).with_own(&places))
}

/// `format=svg` (a picture), `dot` or `json`.
fn graph(request: &Request, report: &Report) -> Result {
    let graph = view::graph::graph(&report.tree(), &report.query);
    let program = report.profile.meta.title();
    Ok(match request.query.given("format").unwrap_or("svg") {
        "json" => Response::json(with_base(json::graph(&graph), report).to_string()),
        "dot" => Response::text(encode::graph_dot(&graph, program, &report.query)),
        _ => Response::picture(encode::graph_svg(&graph, program, &report.query)),
    })
}
