//! `/pprof/…`: what `jeprof`, `google-pprof` and Go's pprof fetch, and brpc's `display=`.

use heapwise_profile::{Location, Profile};

use super::current::{Over, rendered};
use super::display::{self, Options};
use crate::context::Context;
use crate::encode;
use crate::error::{HttpError, Result};
use crate::http::{Method, Request, Response, Status};
use crate::source::{ControlCommand, Source};

/// Most addresses resolved by one request.
const MOST_ADDRESSES: usize = 400_000;

/// Answers `/pprof/<what>`.
pub(crate) fn answer(context: &Context, request: &Request, source: &dyn Source, what: &str) -> Result {
    match what {
        "heap" => heap(context, request, source),
        "growth" => growth(context, request, source),
        "symbol" => symbol(context, request, source),
        "cmdline" => cmdline(source),
        "profile" | "contention" | "wall" | "pmuprofile" => Err(HttpError::missing(format!(
            "/pprof/{what} is not about memory; heapwise serves /pprof/heap, growth, symbol and cmdline"
        ))),
        _ => Err(HttpError::missing(format!("no /pprof/{what}; there are heap, growth, symbol and cmdline"))),
    }
}

/// The forms of a profile that clients read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// jemalloc's text, with threads.
    HeapV2,
    /// gperftools' text, which both perl tools read.
    Gperftools,
    /// `profile.proto`, gzipped.
    Pprof,
}

impl Form {
    /// The form that a client reads: `form=`, else its `Accept`, else its `User-Agent`. `jeprof`
    /// and `google-pprof` both run curl, and only gperftools' text is read by both.
    fn of_request(request: &Request) -> Result<Self> {
        let accepts = |kind: &str| request.header("accept").is_some_and(|accept| accept.contains(kind));
        let agent = request.header("user-agent").unwrap_or_default();
        match request.query.given("form") {
            Some("heap_v2" | "jemalloc") => Ok(Form::HeapV2),
            Some("gperftools" | "tcmalloc") => Ok(Form::Gperftools),
            Some("pprof" | "proto") => Ok(Form::Pprof),
            Some(other) => {
                Err(HttpError::bad(format!("form={other}: there are heap_v2, gperftools and pprof")))
            }
            None if accepts("protobuf") || agent.starts_with("Go-http-client/") => Ok(Form::Pprof),
            None if agent.is_empty() || agent.starts_with("curl/") => Ok(Form::Gperftools),
            None => Ok(Form::HeapV2),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Form::HeapV2 => "heap",
            Form::Gperftools => "gperftools",
            Form::Pprof => "pprof",
        }
    }

    fn encode(self, profile: &Profile, most_bytes: usize, begun: bool) -> Result {
        Ok(match self {
            Form::HeapV2 => Response::text(encode::heap_v2(profile, most_bytes)?),
            Form::Gperftools => Response::text(warned(encode::gperftools(profile, most_bytes)?, begun)),
            Form::Pprof => {
                let body = encode::pprof(profile, false, most_bytes)?;
                Response::new(Status::Ok, "application/octet-stream", body)
            }
        })
    }
}

/// Line in front of a profile of a process that is recorded only from now on; perl's pprof prints
/// lines of this kind.
const BEGAN: &str =
    "%warn heapwise began to sample with this request: ask again when the program has allocated\n";

fn heap(context: &Context, request: &Request, source: &dyn Source) -> Result {
    if request.query.given("display") == Some("stats") {
        return super::memory::statistics(source, request.query.given("opts").unwrap_or("Ja"));
    }
    let form = Form::of_request(request)?;
    let begun = begin(context, request, source)?;
    if let Some(display) = request.query.given("display") {
        return shown(context, request, source, display);
    }
    let key = format!("{} {begun}", form.name());
    rendered(context, request, source, &key, Over::Window, |profile| {
        form.encode(profile, context.memory.response(), begun)
    })
}

fn growth(context: &Context, request: &Request, source: &dyn Source) -> Result {
    let begun = begin(context, request, source)?;
    if let Some(display) = request.query.given("display") {
        return shown(context, request, source, display);
    }
    rendered(context, request, source, &format!("growth {begun}"), Over::Change, |profile| {
        Ok(Response::text(warned(encode::growth(profile, context.memory.response())?, begun)))
    })
}

fn warned(mut text: Vec<u8>, begun: bool) -> Vec<u8> {
    if begun {
        text.splice(0..0, BEGAN.bytes());
    }
    text
}

/// Starts sampling of a live process that was never recorded: its profile would be empty.
fn begin(context: &Context, request: &Request, source: &dyn Source) -> Result<bool> {
    let facts = source.facts()?;
    let is_idle = facts.mode == Some("off") && facts.live_bytes == Some(0) && source.is_live()?;
    if !is_idle || !context.profiles.current(source)?.samples.is_empty() {
        return Ok(false);
    }
    // As for a new profile: other sites in the user's browser may not.
    context.guard.admit_own(request)?;
    context.control(source, &ControlCommand::Start)?;
    Ok(true)
}

fn shown(context: &Context, request: &Request, source: &dyn Source, display: &str) -> Result {
    let options = Options::of_request(&request.query)?;
    rendered(context, request, source, "display", Over::Window, |profile| match display {
        "text" => display::text(profile, None, &options),
        "flamegraph" => display::flame(profile, None, &options),
        "svg" => display::graph(profile, None, &options),
        other => {
            Err(HttpError::bad(format!("display:{other} invalid; there are text, svg, flamegraph and stats")))
        }
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
    fn every_client_gets_the_form_it_reads() {
        let form = |target: &str, headers: &[(&str, &str)]| {
            let mut request = Request::new(Method::Get, target).unwrap();
            request.headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            Form::of_request(&request)
        };
        let agent = |name| form("/pprof/heap", &[("user-agent", name)]).unwrap();
        assert_eq!(agent("curl/7.88.1"), Form::Gperftools);
        assert_eq!(agent("Go-http-client/1.1"), Form::Pprof);
        assert_eq!(agent("ureq/3.1"), Form::HeapV2);
        assert_eq!(agent("Mozilla/5.0"), Form::HeapV2);
        assert_eq!(form("/pprof/heap", &[]).unwrap(), Form::Gperftools);
        let protobuf = [("user-agent", "curl/8"), ("accept", "application/vnd.google.protobuf")];
        assert_eq!(form("/pprof/heap", &protobuf).unwrap(), Form::Pprof);
        assert_eq!(form("/pprof/heap?form=heap_v2", &[("user-agent", "curl/8")]).unwrap(), Form::HeapV2);
        assert!(form("/pprof/heap?form=csv", &[]).is_err());
    }

    #[test]
    fn addresses_as_tools_write_them() {
        assert_eq!(parse_address("0x0000000000401136"), Some(0x0040_1136));
        assert_eq!(parse_address("401136"), Some(0x0040_1136));
        assert_eq!(parse_address("0xzz"), None);
        assert_eq!(parse_address(""), None);
        assert_eq!(parse_address("0xfffffffffffffffff"), None);
    }
}
