//! Answers of the server: status, SQL, questions, profiles.

use std::path::Path;

use heapwise_capture::failure::{Failure, Outcome};
use heapwise_profile::{Profile, compact, quantity};
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

/// Opened profiles that are kept.
const MOST_OPENED: usize = 100;
/// Rows of an answer, unless the request has a limit.
const USUAL_ROWS: usize = 50;

/// Type of the scripts of the page.
const SCRIPT: &str = "text/javascript; charset=utf-8";

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
    let catalog = state.catalog()?;
    answer::json(&catalog.rows(sql)?).map(Response::json)
}

/// The answer to a question that is built in.
pub(super) fn question(state: &State, request: &Request, name: &str) -> Outcome<Response> {
    let catalog = state.catalog()?;
    let sql = sql_of(&catalog, request, name)?;
    answer::json(&catalog.rows(&sql)?).map(Response::json)
}

/// The SQL of a question that is built in.
pub(super) fn sql(state: &State, request: &Request, name: &str) -> Outcome<Response> {
    sql_of(&state.catalog()?, request, name).map(Response::text)
}

fn sql_of(catalog: &Catalog, request: &Request, name: &str) -> Outcome<String> {
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
    Ok(question.sql(&asked(request)?.scope(catalog, &question)?))
}

/// The options of a question.
fn asked(request: &Request) -> Outcome<Asked> {
    let resolution = match request.query.given("resolution") {
        None | Some("minute") => Resolution::Minute,
        Some("hour") => Resolution::Hour,
        Some("day") => Resolution::Day,
        Some(_) => return Err(Failure::new("resolution is minute, hour or day")),
    };
    let since = request.query.given("since").map(quantity::parse_duration).transpose();
    let limit = request.query.given("limit").map_or(Ok(USUAL_ROWS), str::parse);
    Ok(Asked {
        service: request.query.given("service").map(str::to_owned),
        since: since.map_err(|why| Failure::new(format!("since: {why}")))?,
        until_ns: moment(request, "until")?,
        resolution,
        limit: limit.map_err(|_| Failure::new("limit is a number of rows"))?,
    })
}

/// A moment of a request, where one is given.
fn moment(request: &Request, key: &str) -> Outcome<Option<i64>> {
    let given = request.query.given(key).map(day::parse_moment).transpose();
    given.map_err(|why| Failure::new(format!("{key}: {why}")))
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
    let wanted = Wanted { host: needed("host")?.to_owned(), pid, until_ns: moment(request, "at")? };
    let catalog = state.catalog()?;
    let profile = drill_down::profile(&catalog, &wanted)?;
    show(state, &profile, &format!("{}-{pid}", wanted.host))
}

/// Opens the sum of the profiles of all processes that run.
pub(super) fn open_merged(state: &State, request: &Request) -> Outcome<Response> {
    let catalog = state.catalog()?;
    let scope = asked(request)?.scope(&catalog, &Question::Top)?;
    let profile = drill_down::merged(&catalog, &scope)?;
    show(state, &profile, &format!("{}-merged", profile.meta.program))
}

/// Shows a profile on the page of `heapwise serve`.
fn show(state: &State, profile: &Profile, label: &str) -> Outcome<Response> {
    let time = profile.meta.time_unix_ns.unwrap_or(0);
    let label: String =
        label.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
    let name = format!("{label}-{time}.hwp");
    let path = state.opened.join(&name);
    delete_oldest(&state.opened);
    std::fs::write(&path, compact::encode(profile)).map_err(|why| Failure::file(&path, why))?;
    Ok(Response::redirect(format!("/s/opened/overview?profile={name}")))
}

/// Makes room for another opened profile.
fn delete_oldest(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut files: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    for (_, path) in files.iter().rev().skip(MOST_OPENED - 1) {
        // It may be gone; it can be opened again.
        let _ = std::fs::remove_file(path);
    }
}

/// The page. A browser that was given the token keeps it for later requests.
pub(super) fn page(state: &State) -> Response {
    let page = Response::new(Status::Ok, "text/html; charset=utf-8", include_str!("page/index.html"));
    match &state.token {
        Some(token) => {
            page.with("Set-Cookie", format!("heapwise_token={token}; Path=/; HttpOnly; SameSite=Strict"))
        }
        None => page,
    }
}

/// A file of the page.
pub(super) fn page_file(name: &str) -> Option<Response> {
    let (kind, text) = match name {
        "page.css" => ("text/css; charset=utf-8", include_str!("page/page.css")),
        "page.js" => (SCRIPT, include_str!("page/page.js")),
        "strings.js" => (SCRIPT, include_str!("page/strings.js")),
        "format.js" => (SCRIPT, include_str!("page/format.js")),
        "chart.js" => (SCRIPT, include_str!("page/chart.js")),
        _ => return None,
    };
    Some(Response::new(Status::Ok, kind, text))
}
