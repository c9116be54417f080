//! `/debug/pprof/…`: the addresses of Go programs, for `go tool pprof`, Parca and Pyroscope.

use super::current::{Over, rendered};
use super::pprof;
use crate::context::Context;
use crate::encode;
use crate::error::{HttpError, Result};
use crate::http::{Request, Response, Status};
use crate::source::Source;

/// Answers `/debug/pprof/<path>`.
pub(crate) fn answer(context: &Context, request: &Request, source: &dyn Source, path: &[&str]) -> Result {
    match path {
        [] => Ok(Response::text("heap\nallocs\nsymbol\ncmdline\n")),
        [what @ ("heap" | "allocs")] => profile(context, request, source, what),
        [what @ ("symbol" | "cmdline")] => pprof::answer(context, request, source, what),
        _ => Err(HttpError::missing("no such profile; there are heap and allocs")),
    }
}

/// `heap` opens on live bytes, `allocs` on allocated bytes; both hold all four. `debug=1` gives
/// text.
fn profile(context: &Context, request: &Request, source: &dyn Source, what: &str) -> Result {
    let as_text = request.query.given("debug").is_some_and(|level| level != "0");
    rendered(context, request, source, what, Over::Change, |profile| {
        if as_text {
            return Ok(Response::text(encode::heap_v2(profile, context.memory.response())?));
        }
        let name = format!("attachment; filename=\"{what}.pb.gz\"");
        let body = encode::pprof(profile, what == "allocs", context.memory.response())?;
        Ok(Response::new(Status::Ok, "application/octet-stream", body).with("Content-Disposition", name))
    })
}
