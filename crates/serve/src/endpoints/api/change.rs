//! The requests that change state: a new profile, a control request to a live process.

use serde_json::json;

use crate::context::Context;
use crate::error::{HttpError, Result};
use crate::http::{QueryString, Request, Response};
use crate::source::{ControlCommand, Source};
use heapwise_profile::quantity::parse_rate;

/// Longest name of a mark.
const MOST_NAME_BYTES: usize = 40;

/// `POST …/profiles`: takes a profile and stores it with its symbols.
pub(super) fn new_profile(context: &Context, source: &dyn Source) -> Result {
    let stored = source.keep(&context.profiles.fresh(source)?)?;
    Ok(Response::json(stored.json().to_string()))
}

/// `POST …/control` with `action=start|stop|reset|rate|mark` and, for the last two, `value=`.
pub(super) fn control(context: &Context, request: &Request, source: &dyn Source) -> Result {
    let body = std::str::from_utf8(&request.body).map_err(|_| HttpError::bad("the body is not text"))?;
    let form = QueryString::parse(body).map_err(|_| HttpError::bad("the body is not a form"))?;
    let value = form.given("value").unwrap_or_default();
    let command = match form.given("action").unwrap_or_default() {
        "start" => ControlCommand::Start,
        "stop" => ControlCommand::Stop,
        "reset" => ControlCommand::Reset,
        "rate" => {
            ControlCommand::Rate(parse_rate(value).map_err(|why| HttpError::bad(format!("rate: {why}")))?)
        }
        "mark" => ControlCommand::Mark(mark_name(value)?),
        _ => return Err(HttpError::bad("action is start, stop, reset, rate or mark")),
    };
    context.control(source, &command)?;
    Ok(Response::json(json!({ "done": true }).to_string()))
}

fn mark_name(name: &str) -> Result<String> {
    let fine = !name.is_empty() && name.len() <= MOST_NAME_BYTES && !name.chars().any(char::is_control);
    if fine {
        Ok(name.to_owned())
    } else {
        Err(HttpError::bad(format!("a mark has 1 to {MOST_NAME_BYTES} bytes of text")))
    }
}
