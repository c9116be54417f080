//! `/flags/…`: brpc's switches of jemalloc's profiler, for any allocator.

use crate::context::Context;
use crate::error::{HttpError, Result};
use crate::http::{QueryString, Request, Response};
use crate::source::{ControlCommand, Source};

const NAMES: [&str; 4] = ["je_prof_active", "je_prof_dump", "je_prof_reset", "max_profiles_kept"];

/// Most profiles that `max_profiles_kept` may keep of each process.
const MOST_KEPT: usize = 10_000;

/// Answers `/flags`, `/flags/<name>` and, with the token, `/flags/<name>?setvalue=<value>`.
pub(crate) fn answer(context: &Context, request: &Request, source: &dyn Source, path: &[&str]) -> Result {
    match path {
        [] => {
            let lines: Result<Vec<String>> = NAMES.iter().map(|name| line(context, source, name)).collect();
            Ok(Response::text(lines?.concat()))
        }
        [name] if NAMES.contains(name) => match set_value(request)? {
            None => Ok(Response::text(line(context, source, name)?)),
            Some(value) => {
                // brpc's users type this with GET; the token in it shows that they, and no other
                // page in their browser, meant it.
                context.guard.admit_change(request)?;
                let detail = set(context, source, name, &value)?;
                Ok(Response::text(format!("Set `{name}' to {value}{detail}\n")))
            }
        },
        _ => Err(HttpError::missing(format!("no such flag; there are {}", NAMES.join(", ")))),
    }
}

/// The value to set: `setvalue` of the query, or of the form in the body.
fn set_value(request: &Request) -> Result<Option<String>> {
    if let Some(value) = request.query.get("setvalue") {
        return Ok(Some(value.to_owned()));
    }
    let form = QueryString::parse(String::from_utf8_lossy(&request.body).trim());
    let form = form.map_err(|_| HttpError::bad("the body is not a form"))?;
    Ok(form.get("setvalue").map(str::to_owned))
}

fn line(context: &Context, source: &dyn Source, name: &str) -> Result<String> {
    let facts = source.facts()?;
    let value = match name {
        "je_prof_active" => facts.mode.is_some_and(|mode| mode != "off").to_string(),
        "max_profiles_kept" => context.sources.kept().get().to_string(),
        "je_prof_reset" => facts.rate_bytes.map_or(0, |rate| rate.max(1).ilog2()).to_string(),
        _ => source.stored()?.len().to_string(),
    };
    Ok(format!("{name} | {value}\n"))
}

/// Sets a flag; returns what the reply adds.
fn set(context: &Context, source: &dyn Source, name: &str, value: &str) -> Result<String> {
    match (name, value) {
        // Any change dumps, as in brpc.
        ("je_prof_dump", _) => {
            let stored = source.keep(&context.profiles.fresh(source)?)?;
            return Ok(format!(": {}", stored.name));
        }
        ("max_profiles_kept", _) => {
            let most = value.parse::<usize>().ok().filter(|most| (1..=MOST_KEPT).contains(most));
            let most =
                most.ok_or_else(|| HttpError::bad(format!("max_profiles_kept is 1 to {MOST_KEPT}")))?;
            context.sources.kept().set(most);
            return Ok(String::new());
        }
        _ => {}
    }
    match (name, value) {
        ("je_prof_active", "true" | "1" | "t" | "yes") => context.control(source, &ControlCommand::Start),
        ("je_prof_active", "false" | "0" | "f" | "no") => context.control(source, &ControlCommand::Stop),
        ("je_prof_active", _) => Err(HttpError::bad("je_prof_active is true or false")),
        _ => {
            let bits = value.parse::<u32>().ok().filter(|bits| *bits <= 40);
            let bits =
                bits.ok_or_else(|| HttpError::bad("je_prof_reset is the logarithm of a rate, 0 to 40"))?;
            context.control(source, &ControlCommand::Reset)?;
            context.control(source, &ControlCommand::Rate(1 << bits))
        }
    }?;
    Ok(String::new())
}
