//! The selected profile as a file of another tool.

use heapwise_capture::report_input::Report;
use heapwise_profile::query::LeafCut;
use heapwise_profile::{Query, call_tree, diff};
use heapwise_render::export::Format;

use crate::encode;
use crate::error::{HttpError, Result};
use crate::http::{Request, Response, Status};

/// Answers `GET …/export?format=pprof|speedscope|folded|…`: filters take part, a base is
/// subtracted.
pub(super) fn answer(request: &Request, report: &Report, most_bytes: usize) -> Result {
    let name = request.query.given("format").unwrap_or("pprof");
    let format = Format::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        HttpError::bad(format!("no format `{name}`; there are {}", known.join(", ")))
    })?;
    let difference = report.baseline.as_ref().map(|base| diff::subtract(&report.profile, base));
    let profile = difference.as_ref().unwrap_or(&report.profile);
    let query = Query { leaf_cut: LeafCut::Nothing, ..report.query.clone() };
    let is_part = query.filter.selects() || query.filter.matches_frames();
    let part = is_part.then(|| call_tree::select(profile, &query));
    let bytes = encode::write(part.as_ref().unwrap_or(profile), format, query.metric, most_bytes)?;
    let program = profile.meta.program.rsplit('/').next().unwrap_or_default();
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let stem: String = program.chars().map(safe).collect();
    let file = format!("{}.{}", if stem.is_empty() { "profile" } else { &stem }, format.extension());
    Ok(Response::new(Status::Ok, "application/octet-stream", bytes)
        .with("Content-Disposition", format!("attachment; filename=\"{file}\"")))
}
