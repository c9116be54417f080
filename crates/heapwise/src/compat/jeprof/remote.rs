//! Profiles fetched from a server: `http://host:port/pprof/heap` and its symbol protocol.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heapwise_profile::{Function, FunctionId, Line, Profile};

use crate::failure::Outcome;
use crate::input_error;
use crate::output::{self, Overwrite};

/// Largest answer taken from a server.
const MOST_BYTES: u64 = 1 << 30;

/// A profile on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    base: String,
    host: String,
    page: String,
}

impl Location {
    /// Recognises `http://…` and `host:port[/page]`. A name that is neither is a file: unlike
    /// jeprof, a mistyped file is never taken for a host.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("http://");
        if rest.is_none() && std::path::Path::new(name).exists() {
            return None;
        }
        let rest = rest.unwrap_or(name);
        let (host_port, page) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = host_port.rsplit_once(':').unwrap_or((host_port, ""));
        let has_port = !host.is_empty() && port.parse::<u16>().is_ok();
        if !has_port && !name.starts_with("http://") {
            return None;
        }
        let at = page.find("pprof/").unwrap_or(page.len());
        let prefix = page.get(..at).unwrap_or_default().trim_end_matches('/');
        let slash = if prefix.is_empty() { "" } else { "/" };
        let profile = page.get(at..).filter(|page| !page.is_empty()).unwrap_or("pprof/profile");
        Some(Self {
            base: format!("http://{host_port}{slash}{prefix}"),
            host: host.to_owned(),
            page: format!("/{profile}"),
        })
    }

    /// Fetches program name, profile and symbols, and keeps the profile where jeprof would.
    pub(super) fn fetch(&self, seconds: u64) -> Outcome<Profile> {
        let agent = Agent::new(seconds);
        let count = agent.get(&format!("{}/pprof/symbol", self.base))?;
        let count = String::from_utf8_lossy(&count);
        let symbols: u64 = count
            .split("num_symbols:")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .ok_or_else(|| input_error!("{}/pprof/symbol: not a server of profiles", self.base))?;
        if symbols == 0 {
            return Err(input_error!("Stripped binary. No symbols available."));
        }
        let cmdline = agent.get(&format!("{}/pprof/cmdline", self.base))?;
        let program = cmdline.split(|byte| matches!(byte, 0 | b'\n')).next().unwrap_or_default();
        let program = String::from_utf8_lossy(program).into_owned();
        let url = self.profile_url(seconds);
        let bytes = agent.get(&url)?;
        self.keep(&program, &url, &bytes)?;
        let mut profile =
            heapwise_profile::read(&bytes).map_err(|error| input_error!("{}: {}", url, error))?;
        agent.symbolize(&format!("{}/pprof/symbol", self.base), &mut profile)?;
        profile.meta.program = program;
        Ok(profile)
    }

    fn profile_url(&self, seconds: u64) -> String {
        let timed = self.page.contains("/pprof/profile");
        let sign = if self.page.contains('?') { '&' } else { '?' };
        let query = if timed { format!("{sign}seconds={seconds}") } else { String::new() };
        format!("{}{}{query}", self.base, self.page)
    }

    fn keep(&self, program: &str, url: &str, bytes: &[u8]) -> Outcome {
        let directory = std::env::var_os("JEPROF_TMPDIR")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join("jeprof")))
            .ok_or_else(|| input_error!("set JEPROF_TMPDIR to a directory for fetched profiles"))?;
        std::fs::create_dir_all(&directory)
            .map_err(|error| input_error!("{}: {}", directory.display(), error))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let name = program.rsplit('/').next().unwrap_or_default();
        let page = self.page.split('?').next().unwrap_or_default().replace('/', ".");
        let path = directory.join(format!("{name}.{now}.{}{page}", self.host));
        say_err!("Fetching {} profile from {url} to", self.page);
        say_err!("  {}", path.display());
        output::write_file(&path, Overwrite::Allow, |out| out.write_all(bytes))?;
        say_err!("Wrote profile to {}", path.display());
        Ok(())
    }
}

/// An HTTP client with a time limit.
struct Agent(ureq::Agent);

impl Agent {
    fn new(seconds: u64) -> Self {
        let limit = Duration::from_secs(seconds + seconds / 100 + 60);
        Self(ureq::Agent::config_builder().timeout_global(Some(limit)).build().into())
    }

    fn get(&self, url: &str) -> Outcome<Vec<u8>> {
        let failed = |error: ureq::Error| input_error!("{}: {}", url, error);
        let mut response = self.0.get(url).call().map_err(failed)?;
        response.body_mut().with_config().limit(MOST_BYTES).read_to_vec().map_err(failed)
    }

    /// Requests every address at once; the response has a line `0x<address> <name>[--<inlined>…]`
    /// for each.
    fn symbolize(&self, url: &str, profile: &mut Profile) -> Outcome {
        let mut addresses: Vec<u64> =
            profile.locations.iter().map(|location| location.lookup_address()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let body: Vec<String> = addresses.iter().map(|address| format!("{address:#018x}")).collect();
        let failed = |error: ureq::Error| input_error!("{}: {}", url, error);
        let request = self.0.post(url).content_type("application/x-www-form-urlencoded");
        let mut response = request.send(body.join("+")).map_err(failed)?;
        let text = response.body_mut().with_config().limit(MOST_BYTES).read_to_string().map_err(failed)?;
        let names: std::collections::HashMap<u64, &str> = text.lines().filter_map(answer).collect();
        let Profile { locations, functions, .. } = profile;
        for location in locations {
            let Some(chain) = names.get(&location.lookup_address()) else { continue };
            location.lines = chain
                .split("--")
                .map(|name| {
                    functions.push(Function { name: name.to_owned(), ..Function::default() });
                    Line { function: FunctionId::new(functions.len() - 1), line: 0 }
                })
                .collect();
            location.lines.reverse();
        }
        Ok(())
    }
}

fn answer(line: &str) -> Option<(u64, &str)> {
    let (address, name) = line.strip_prefix("0x")?.split_once([' ', '\t'])?;
    let name = name.trim();
    let known = !name.is_empty() && !name.starts_with("0x") && name != "??";
    Some((u64::from_str_radix(address, 16).ok()?, name)).filter(|_| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_from_files() {
        let heap = Location::parse("http://localhost:8090/pprof/heap").expect("a server");
        assert_eq!((heap.base.as_str(), heap.page.as_str()), ("http://localhost:8090", "/pprof/heap"));
        let nested = Location::parse("localhost:1/p/42/pprof/heap").expect("a server");
        assert_eq!((nested.base.as_str(), nested.page.as_str()), ("http://localhost:1/p/42", "/pprof/heap"));
        assert_eq!(Location::parse("jeprof.1.0.f.heap"), None);
        assert_eq!(Location::parse("missing.heap"), None);
    }
}
