//! From a path to the endpoint that answers it.

use std::sync::Arc;

use super::assets;
use super::context::Context;
use super::endpoints::{api, debug_pprof, flags, hotspots, memory, metrics, pprof};
use super::error::{HttpError, Result};
use super::http::{Method, Request, Response};
use super::source::Source;

/// Answers a request that is admitted, `own` before the endpoints of this crate.
pub(crate) fn answer(
    context: &Context,
    request: &Request,
    own: &dyn Fn(&Request) -> Option<Response>,
) -> Response {
    let mut request = request.clone();
    if let Err(refusal) = context.guard.admit(&mut request) {
        return HttpError::from(refusal).into();
    }
    own(&request).unwrap_or_else(|| route(context, &request).unwrap_or_else(Response::from))
}

fn route(context: &Context, request: &Request) -> Result {
    let path: Vec<&str> = request.path.split('/').filter(|part| !part.is_empty()).collect();
    match path.as_slice() {
        [] | ["s", ..] if request.method != Method::Post => Ok(assets::page(&context.guard)),
        ["assets", name] => assets::asset(name).ok_or_else(|| HttpError::missing("no such file")),
        ["metrics"] => Ok(metrics::answer(context)),
        ["health"] => Ok(Response::text("OK\n")),
        ["api", "v1", rest @ ..] => api::answer(context, request, rest),
        ["p", id, rest @ ..] => of_source(context, request, &context.sources.find(id)?, rest),
        rest => of_source(context, request, &context.sources.only()?, rest),
    }
}

/// The endpoints that speak about one process, at the root or under `/p/<pid>`.
fn of_source(context: &Context, request: &Request, source: &Arc<dyn Source>, path: &[&str]) -> Result {
    match path {
        ["gperftools", "pprof", "heap"] => pprof::gperftools_heap(context, request, &**source),
        ["pprof", what] | ["gperftools", "pprof", what] => pprof::answer(context, request, &**source, what),
        ["debug", "pprof", rest @ ..] => debug_pprof::answer(context, request, &**source, rest),
        ["hotspots", what] => hotspots::answer(context, request, &**source, what),
        ["flags", rest @ ..] => flags::answer(context, request, &**source, rest),
        ["memory"] => memory::answer(request, &**source),
        [] => Ok(Response::redirect(format!("/s/{}/overview", source.id()))),
        _ => Err(HttpError::missing(
            "no such address; there are / (the page), /pprof/heap, /hotspots/heap, /debug/pprof/heap, /memory, \
             /metrics, /flags and /api/v1/sources, the process ones also under /p/<pid>",
        )),
    }
}
