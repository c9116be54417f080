//! `/memory`: the allocator's own statistics.

use serde_json::Value;

use crate::error::{HttpError, Result};
use crate::http::{Request, Response};
use crate::source::Source;

/// Answers `/memory?opts=Ja`; a browser without `opts` is shown the page.
pub(crate) fn answer(request: &Request, source: &dyn Source) -> Result {
    match request.query.get("opts") {
        None if request.wants_page() => Ok(Response::redirect(format!("/s/{}/allocator", source.id()))),
        opts => statistics(source, opts.unwrap_or_default()),
    }
}

/// The statistics: JSON when `opts` has a `J`, else lines. Where jemalloc is the allocator, the
/// output of its `malloc_stats_print` with these letters.
pub(super) fn statistics(source: &dyn Source, opts: &str) -> Result {
    match source.allocator_text(opts)? {
        Some(text) if opts.contains('J') => return Ok(Response::json(text)),
        Some(text) => return Ok(Response::text(text)),
        None => {}
    }
    let statistics = source.statistics()?;
    if statistics["sections"].as_array().is_none_or(Vec::is_empty) {
        return Err(HttpError::missing("no statistics: only a process that carries the probe has them"));
    }
    if opts.contains('J') {
        return Ok(Response::json(statistics.to_string()));
    }
    Ok(Response::text(lines(&statistics)))
}

fn lines(statistics: &Value) -> String {
    let mut out = String::new();
    for section in statistics["sections"].as_array().into_iter().flatten() {
        out += &format!("{}\n", section["title"].as_str().unwrap_or_default());
        for row in section["rows"].as_array().into_iter().flatten() {
            let name = row["name"].as_str().unwrap_or_default();
            out += &format!("  {name:<18} {:>16}\n", row["value"].to_string());
        }
    }
    out
}
