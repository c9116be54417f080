//! Answers of the server: status, SQL, questions, profiles.

use heapwise_capture::failure::{Failure, Outcome};
use heapwise_profile::{compact, quantity};
use heapwise_serve::{Request, Response, Status};
use serde_json::json;

use super::State;
use crate::answer;
use crate::asked::{Asked, Question};
use crate::catalog::Catalog;
use crate::day;
use crate::drill_down::{self, Wanted};
use crate::questions::Resolution;
use crate::schema::Table;

/// Counters of the server, rows and bytes of the tables.
pub(super) fn status(state: &State) -> Outcome<Response> {
    let manifest = state.ingest.current();
    let tables: serde_json::Map<String, serde_json::Value> = Table::ALL
        .into_iter()
        .map(|table| {
            let (mut segments, mut rows, mut bytes) = (0, 0, 0);
            for segment in manifest.of(table) {
                (segments, rows, bytes) = (segments + 1, rows + segment.rows, bytes + segment.bytes);
            }
            (table.name().to_owned(), json!({ "segments": segments, "rows": rows, "bytes": bytes }))
        })
        .collect();
    let status =
        json!({ "received": state.ingest.total(), "generation": manifest.generation, "tables": tables });
    Ok(Response::json(status.to_string()))
}

/// The rows of a query in the body.
pub(super) fn query(state: &State, request: &Request) -> Outcome<Response> {
    let sql = std::str::from_utf8(&request.body).map_err(|_| Failure::new("the query is not UTF-8"))?;
    let catalog = Catalog::new(&state.store, &state.ingest.current())?;
    answer::json(&catalog.rows(sql)?).map(Response::json)
}

/// The answer to a question that is built in.
pub(super) fn question(state: &State, request: &Request, name: &str) -> Outcome<Response> {
    let given = |key: &str| request.query.given(key).map(str::to_owned);
    let needed = |key: &str| given(key).ok_or_else(|| Failure::new(format!("{name} needs {key}=…")));
    let question = match name {
        "top" => Question::Top,
        "growth" => Question::Growth,
        "outliers" => Question::Outliers,
        "oom" => Question::Oom,
        "diff" => Question::Diff { old: needed("old")?, new: needed("new")? },
        "history" => Question::History { site: needed("site")? },
        _ => return Err(Failure::new("there are top, growth, outliers, oom, diff and history")),
    };
    let resolution = match request.query.given("resolution") {
        None | Some("minute") => Resolution::Minute,
        Some("hour") => Resolution::Hour,
        Some("day") => Resolution::Day,
        Some(_) => return Err(Failure::new("resolution is minute, hour or day")),
    };
    let since =
        given("since").map(|text| quantity::parse_duration(&text)).transpose().map_err(Failure::new)?;
    let asked = Asked {
        service: given("service"),
        since,
        until_ns: given("until").and_then(|text| day::parse_timestamp(&text)),
        resolution,
        limit: given("limit").and_then(|text| text.parse().ok()).unwrap_or(50),
    };
    let catalog = Catalog::new(&state.store, &state.ingest.current())?;
    let sql = question.sql(&asked.scope(&catalog, &question)?);
    answer::json(&catalog.rows(&sql)?).map(Response::json)
}

/// Opens the profile of a process and moment on the page of `heapwise serve`.
pub(super) fn open(state: &State, request: &Request) -> Outcome<Response> {
    let needed = |key: &str| {
        request
            .query
            .given(key)
            .ok_or_else(|| Failure::new(format!("a profile needs host=… and pid=…: {key}")))
    };
    let pid = needed("pid")?.parse().map_err(|_| Failure::new("pid=… is a number"))?;
    let until_ns = request.query.given("at").and_then(day::parse_timestamp);
    let wanted = Wanted { host: needed("host")?.to_owned(), pid, until_ns };
    let catalog = Catalog::new(&state.store, &state.ingest.current())?;
    let profile = drill_down::profile(&catalog, &wanted)?;
    let time = profile.meta.time_unix_ns.unwrap_or(0);
    let host: String =
        wanted.host.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
    let path = state.opened.join(format!("{host}-{pid}-{time}.hwp"));
    let bytes = compact::encode(&profile);
    std::fs::write(&path, bytes).map_err(|why| Failure::file(&path, why))?;
    Ok(Response::redirect("/s/opened/overview".to_owned()))
}

/// A file of the page.
pub(super) fn page(name: &str) -> Option<Response> {
    let (kind, text) = match name {
        "" => ("text/html; charset=utf-8", include_str!("page.html")),
        "page.css" => ("text/css; charset=utf-8", include_str!("page.css")),
        "page.js" => ("text/javascript; charset=utf-8", include_str!("page.js")),
        _ => return None,
    };
    Some(Response::new(Status::Ok, kind, text))
}
