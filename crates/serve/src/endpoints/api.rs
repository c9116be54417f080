//! `/api/v1/…`: everything the page shows, as data (docs/API.md).

mod change;
mod export;
mod flame;
mod listing;
mod summary;
mod views;

use std::sync::Arc;

use heapwise_render::timeline::resident;
use serde_json::json;

use crate::context::Context;
use crate::error::{HttpError, Result};
use crate::http::{Method, Request, Response};
use crate::render_key::RenderKey;
use crate::source::Source;

/// Answers a path below `/api/v1`.
pub(crate) fn answer(context: &Context, request: &Request, path: &[&str]) -> Result {
    let ["sources", rest @ ..] = path else { return Err(unknown()) };
    let Some((id, rest)) = rest.split_first() else { return Ok(list(context, request)) };
    let source = context.sources.find(id)?;
    if request.method == Method::Post {
        context.guard.admit_change(request)?;
        return match rest {
            ["profiles"] => change::new_profile(context, &*source),
            ["control"] => change::control(context, request, &*source),
            _ => Err(unknown()),
        };
    }
    match rest {
        [] => one(&source),
        ["timeline"] => timeline(&*source),
        ["ledger"] => ledger(&*source),
        ["statistics"] => Ok(Response::json(source.statistics()?.to_string())),
        [view] => views::answer(context, request, &*source, view),
        _ => Err(unknown()),
    }
}

/// Readings in an answer at most: more than a chart has columns.
const MOST_READINGS: usize = 1000;

/// Live and allocated bytes over time, with the lines of the ledger.
fn timeline(source: &dyn Source) -> Result {
    let mut answer = source.timeline()?.json();
    answer["resident"] = resident::data(&source.ledger_history()?.thinned(MOST_READINGS));
    Ok(Response::json(answer.to_string()))
}

/// Where the resident memory of a process is (`null` for anything but a running process), and where
/// it was.
fn ledger(source: &dyn Source) -> Result {
    let ledger = source.ledger()?.map(|ledger| heapwise_render::json::ledger(&ledger));
    let history = resident::data(&source.ledger_history()?.thinned(MOST_READINGS));
    Ok(Response::json(json!({ "ledger": ledger, "history": history }).to_string()))
}

fn unknown() -> HttpError {
    HttpError::missing("no such address in the API; docs/API.md lists them")
}

/// Sources that can be described; one that vanished in between is omitted.
fn list(context: &Context, request: &Request) -> Response {
    context.rendered(request, &RenderKey::of_all(&context.profiles.budget, request), || {
        let all: Vec<_> = context
            .sources
            .list()
            .iter()
            .filter_map(|source| Some(source.facts().ok()?.json(source.id())))
            .collect();
        Ok(Response::json(json!({ "version": env!("CARGO_PKG_VERSION"), "sources": all }).to_string()))
    })
}

fn one(source: &Arc<dyn Source>) -> Result {
    let profiles: Vec<_> = source.stored()?.iter().map(|stored| stored.json()).collect();
    let body = json!({ "source": source.facts()?.json(source.id()), "profiles": profiles });
    Ok(Response::json(body.to_string()))
}
