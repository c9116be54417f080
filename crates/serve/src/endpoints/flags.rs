//! `/flags/…`: brpc's switches of jemalloc's profiler, for any allocator.

use crate::context::Context;
use crate::error::{HttpError, Result};
use crate::http::{Request, Response};
use crate::source::{ControlCommand, Source};

const NAMES: [&str; 3] = ["je_prof_active", "je_prof_dump", "je_prof_reset"];

/// Answers `/flags`, `/flags/<name>` and, with the token, `/flags/<name>?setvalue=<value>`.
pub(crate) fn answer(context: &Context, request: &Request, source: &dyn Source, path: &[&str]) -> Result {
    match path {
        [] => {
            let lines: Result<Vec<String>> = NAMES.iter().map(|name| line(source, name)).collect();
            Ok(Response::text(lines?.concat()))
        }
        [name] if NAMES.contains(name) => match request.query.get("setvalue") {
            None => Ok(Response::text(line(source, name)?)),
            Some(value) => {
                // brpc's users type this with GET; the token in it shows that they, and no other
                // page in their browser, meant it.
                context.guard.admit_change(request)?;
                set(context, source, name, value)?;
                Ok(Response::text(format!("Set `{name}' to {value}\n")))
            }
        },
        _ => Err(HttpError::missing(format!("no such flag; there are {}", NAMES.join(", ")))),
    }
}

fn line(source: &dyn Source, name: &str) -> Result<String> {
    let facts = source.facts()?;
    let value = match name {
        "je_prof_active" => facts.mode.is_some_and(|mode| mode != "off").to_string(),
        "je_prof_reset" => facts.rate_bytes.map_or(0, |rate| rate.max(1).ilog2()).to_string(),
        _ => source.stored()?.len().to_string(),
    };
    Ok(format!("{name} | {value}\n"))
}

fn set(context: &Context, source: &dyn Source, name: &str, value: &str) -> Result<()> {
    match (name, value) {
        ("je_prof_active", "true" | "1" | "t" | "yes") => context.control(source, &ControlCommand::Start),
        ("je_prof_active", "false" | "0" | "f" | "no") => context.control(source, &ControlCommand::Stop),
        ("je_prof_active", _) => Err(HttpError::bad("je_prof_active is true or false")),
        // Any change dumps, as in brpc.
        ("je_prof_dump", _) => source.keep(&context.profiles.fresh(source)?).map(drop),
        _ => {
            let bits = value.parse::<u32>().ok().filter(|bits| *bits <= 40);
            let bits =
                bits.ok_or_else(|| HttpError::bad("je_prof_reset is the logarithm of a rate, 0 to 40"))?;
            context.control(source, &ControlCommand::Reset)?;
            context.control(source, &ControlCommand::Rate(1 << bits))
        }
    }
}
