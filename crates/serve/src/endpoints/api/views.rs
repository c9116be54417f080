//! Views of the selected profile as JSON, rendered once for all who ask the same.

use heapwise_profile::view;
use heapwise_render::json;
use serde_json::Value;

use super::{flame, summary, unknown};
use crate::context::Context;
use crate::encode;
use crate::http::{Request, Response};
use crate::render_key::RenderKey;
use crate::selection::Selection;
use crate::source::Source;
use crate::trouble::Answer;

/// Stacks sent of one leak group; the rest is counted.
const MOST_STACKS: usize = 12;

const VIEWS: [&str; 10] =
    ["summary", "findings", "top", "flame", "tree", "graph", "leaks", "sizes", "threads", "modules"];

/// Answers `GET …/<view>`.
pub(super) fn answer(context: &Context, request: &Request, source: &dyn Source, view: &str) -> Answer {
    if !VIEWS.contains(&view) {
        return Err(unknown());
    }
    let key = RenderKey::new(context, request, source, view)?;
    Ok(context.rendered(request, &key, || render(context, request, source, view)))
}

fn render(context: &Context, request: &Request, source: &dyn Source, view: &str) -> Answer {
    let selection = Selection::new(context, source, &request.query)?;
    let (profile, question) = (&selection.profile, &selection.question);
    let value = match view {
        "summary" => return Ok(Response::json(summary::summary(&selection).to_string())),
        "findings" => return summary::findings(source, &selection),
        "flame" => return flame::answer(request, &selection),
        "graph" => return graph(request, &selection),
        "top" => json::top(&view::top::top(&selection.tree(), question)),
        "tree" => json::tree(&view::peek::tree(&selection.tree(), question)),
        "leaks" => {
            cut_stacks(json::leaks(&view::leaks::leaks(&selection.tree(), selection.verdict, question)))
        }
        "sizes" => json::sizes(&view::sizes::sizes(profile, &selection.tree(), question)),
        "threads" => json::threads(&view::threads::threads(profile, question)),
        _ => json::modules(&view::modules::modules(profile, selection.base.as_deref(), question)),
    };
    Ok(Response::json(with_base(value, &selection).to_string()))
}

/// The total of the base, which a difference is a share of.
fn with_base(mut value: Value, selection: &Selection) -> Value {
    let metric = selection.question.metric;
    let base = selection.base.as_ref().map_or(0.0, |base| base.total().get(metric));
    value["base_total"] = Value::from(base.round() as i64);
    value
}

fn cut_stacks(mut leaks: Value) -> Value {
    for group in leaks["groups"].as_array_mut().into_iter().flatten() {
        let stacks = group["stacks"].as_array_mut();
        let more = stacks.map_or(0, |stacks| {
            let more = stacks.len().saturating_sub(MOST_STACKS);
            stacks.truncate(MOST_STACKS);
            more
        });
        group["more_stacks"] = Value::from(more);
    }
    leaks
}

/// `format=svg` (a picture), `dot` or `json`.
fn graph(request: &Request, selection: &Selection) -> Answer {
    let graph = view::graph::graph(&selection.tree(), &selection.question);
    let program = &selection.profile.meta.program;
    Ok(match request.query.given("format").unwrap_or("svg") {
        "json" => Response::json(with_base(json::graph(&graph), selection).to_string()),
        "dot" => Response::text(encode::graph_dot(&graph, program)),
        _ => Response::picture(encode::graph_svg(&graph, program)),
    })
}
