//! `/pprof/…`: what `jeprof` and `google-pprof` fetch, and brpc's `display=`.

use heapwise_profile::{Location, Profile};

use super::current::{Over, rendered};
use super::display::{self, Options};
use crate::context::Context;
use crate::encode;
use crate::error::{HttpError, Result};
use crate::http::{Method, Request, Response};
use crate::source::Source;

/// Most addresses resolved by one request.
const MOST_ADDRESSES: usize = 400_000;

/// Answers `/pprof/<what>`.
pub(crate) fn answer(context: &Context, request: &Request, source: &dyn Source, what: &str) -> Result {
    match what {
        "heap" => heap(context, request, source),
        "growth" => rendered(context, request, source, "growth", Over::Change, |profile| {
            Ok(Response::text(encode::growth(profile, context.memory.response())?))
        }),
        "symbol" => symbol(context, request, source),
        "cmdline" => cmdline(source),
        "profile" | "contention" | "wall" | "pmuprofile" => Err(HttpError::missing(format!(
            "/pprof/{what} is not about memory; heapwise serves /pprof/heap, growth, symbol and cmdline"
        ))),
        _ => Err(HttpError::missing(format!("no /pprof/{what}; there are heap, growth, symbol and cmdline"))),
    }
}

fn heap(context: &Context, request: &Request, source: &dyn Source) -> Result {
    let Some(display) = request.query.given("display") else {
        return rendered(context, request, source, "heap", Over::Window, |profile| {
            Ok(Response::text(encode::heap_v2(profile, context.memory.response())?))
        });
    };
    if display == "stats" {
        return super::memory::statistics(source, request.query.given("opts").unwrap_or("Ja"));
    }
    let options = Options::of_request(&request.query)?;
    rendered(context, request, source, "display", Over::Window, |profile| match display {
        "text" => display::text(profile, None, &options),
        "flamegraph" => display::flame(profile, None, &options),
        "svg" => display::graph(profile, None, &options),
        // brpc answers 200, and scripts that look for the words depend on it.
        other => Ok(Response::text(format!("display:{other} invalid"))),
    })
}

/// The same numbers as `/pprof/heap` for `google-pprof`, which does not read jemalloc's text.
pub(crate) fn gperftools_heap(context: &Context, request: &Request, source: &dyn Source) -> Result {
    rendered(context, request, source, "gperftools", Over::Window, |profile| {
        Ok(Response::text(encode::gperftools(profile, context.memory.response())?))
    })
}

/// GET and HEAD say that there are symbols, POST resolves `0x…+0x…`: call sites, so nothing is
/// taken off them here.
fn symbol(context: &Context, request: &Request, source: &dyn Source) -> Result {
    if request.method != Method::Post {
        return Ok(Response::text("num_symbols: 1\n"));
    }
    let body = String::from_utf8_lossy(&request.body);
    let asked: Vec<&str> = body.trim().split(['+', ' ', '\n']).filter(|text| !text.is_empty()).collect();
    if asked.len() > MOST_ADDRESSES {
        return Err(HttpError::bad(format!("at most {MOST_ADDRESSES} addresses at a time")));
    }
    let addresses: Vec<(&str, u64)> =
        asked.into_iter().filter_map(|text| Some((text, parse_address(text)?))).collect();
    let known = context.profiles.current(source)?;
    let mut profile = Profile { modules: known.modules.clone(), ..Profile::default() };
    profile.locations = addresses.iter().map(|(_, address)| location(&known, *address)).collect();
    context.profiles.symbolize(&mut profile);
    let mut out = String::new();
    for ((text, _), location) in addresses.iter().zip(&profile.locations) {
        let names: Vec<&str> =
            location.lines.iter().map(|line| &*profile.functions[line.function.index()].name).collect();
        if !names.is_empty() {
            out += &format!("{text}\t{}\n", names.join("--"));
        }
    }
    Ok(Response::text(out))
}

fn parse_address(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u64::from_str_radix(digits, 16).ok()
}

/// An address in its module. A location that the profile already has keeps its names, which may
/// come from a file.
fn location(known: &Profile, address: u64) -> Location {
    let module = known.modules.iter().position(|module| module.contains(address));
    Location {
        address,
        is_return_address: false,
        module: module.map(heapwise_profile::ModuleId::new),
        lines: Vec::new(),
    }
}

/// Program and arguments, one a line; tools take the first.
fn cmdline(source: &dyn Source) -> Result {
    let meta = source.current()?.meta;
    let mut lines = vec![meta.program.clone()];
    lines.extend(meta.args.iter().skip(1).cloned());
    Ok(Response::text(lines.join("\n") + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_tools_write_them() {
        assert_eq!(parse_address("0x0000000000401136"), Some(0x0040_1136));
        assert_eq!(parse_address("401136"), Some(0x0040_1136));
        assert_eq!(parse_address("0xzz"), None);
        assert_eq!(parse_address(""), None);
        assert_eq!(parse_address("0xfffffffffffffffff"), None);
    }
}
