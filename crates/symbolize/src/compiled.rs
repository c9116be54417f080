//! Names of code that a runtime compiles while the program runs: it belongs to no binary.
//!
//! Runtimes write such names to `/tmp/perf-PID.map` when configured to (node
//! `--perf-basic-prof`, Java `-XX:+DumpPerfMapAtExit` or `jcmd PID Compiler.perfmap`): a line for
//! each piece of code with its address and size, in the order in which it was made. A later piece
//! replaces an earlier one at the same addresses. Addresses without an entry get the name of the
//! runtime.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use heapwise_profile::{Began, Function, FunctionId, Line, Location, Profile};

/// Largest map that is read.
const MOST_BYTES: u64 = 256 << 20;
/// Times of files and profiles differ by less.
const TOLERANCE: Duration = Duration::from_secs(10);
/// `O_NOFOLLOW | O_NONBLOCK`.
const OPEN_FLAGS: i32 = 0o400_000 | 0o4000;

/// Runtimes by a part of the names of their binaries.
const RUNTIMES: [(&str, &str); 6] = [
    ("libjvm.so", "[JVM]"),
    ("libcoreclr.so", "[.NET]"),
    ("luajit", "[LuaJIT]"),
    ("libnode.so", "[V8]"),
    ("libruby", "[Ruby]"),
    ("libv8", "[V8]"),
];

/// Names the code without a binary in a profile that was recorded until now.
pub fn name_compiled_until_now(profile: &mut Cow<'_, Profile>) {
    if has_unnamed(profile) {
        name_compiled(profile.to_mut(), SystemTime::now());
    }
}

/// As [`name_compiled_until_now`], of a profile that may be old: a map that was written later is
/// that of another process with the same number.
pub(crate) fn name_compiled_when_recorded(profile: &mut Profile) {
    if has_unnamed(profile) {
        let recorded = Duration::from_nanos(profile.meta.time_unix_ns.unwrap_or(0));
        name_compiled(profile, SystemTime::UNIX_EPOCH + recorded);
    }
}

fn has_unnamed(profile: &Profile) -> bool {
    profile.meta.recorded.began != Began::Unknown && profile.locations.iter().any(is_unnamed)
}

fn is_unnamed(location: &Location) -> bool {
    location.module.is_none() && location.address != 0 && location.lines.is_empty()
}

fn name_compiled(profile: &mut Profile, until: SystemTime) {
    let map = profile.meta.pid.and_then(|pid| PerfMap::of(pid, start(profile), until)).unwrap_or_default();
    let runtime = runtime(profile);
    let mut functions: HashMap<Function, FunctionId> = HashMap::new();
    let Profile { locations, functions: table, .. } = profile;
    for location in locations.iter_mut().filter(|location| is_unnamed(location)) {
        let (function, line) = match map.find(location.address - u64::from(location.is_return_address)) {
            Some(name) => parse(name),
            None => (Function { name: runtime.into(), ..Function::default() }, 0),
        };
        let function = *functions.entry(function).or_insert_with_key(|function| {
            table.push(function.clone());
            FunctionId::new(table.len() - 1)
        });
        location.lines = vec![Line { function, line }];
    }
}

/// When the program was started, or earlier.
fn start(profile: &Profile) -> SystemTime {
    let before = match profile.meta.recorded.began {
        Began::Late { after_ns } | Began::Reset { after_ns } => after_ns,
        Began::Unknown | Began::Never | Began::WithProgram => 0,
    };
    let lived = before.saturating_add(profile.meta.duration_ns.unwrap_or(0));
    let end = profile.meta.time_unix_ns.unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_nanos(end.saturating_sub(lived))
}

/// The runtime of a profile, by its binaries.
fn runtime(profile: &Profile) -> &'static str {
    let paths = || profile.modules.iter().map(|module| Path::new(&module.path));
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_node = || Path::new(&profile.meta.program).file_name().is_some_and(|name| name == "node");
    let found = RUNTIMES
        .iter()
        .find(|(part, _)| paths().any(|path| name(path).is_some_and(|name| name.contains(part))));
    found.map_or_else(|| if is_node() { "[V8]" } else { "[compiled code]" }, |(_, runtime)| runtime)
}

/// A map of compiled code.
#[derive(Default)]
struct PerfMap {
    /// By start: end and name.
    pieces: BTreeMap<u64, (u64, String)>,
}

impl PerfMap {
    /// The map of a process that ran from `start` until `until`.
    fn of(pid: u32, start: SystemTime, until: SystemTime) -> Option<PerfMap> {
        let from = start.checked_sub(TOLERANCE)?;
        let (file, len) = paths(pid).into_iter().find_map(|path| open(&path, from, until + TOLERANCE))?;
        let mut text = Vec::with_capacity(usize::try_from(len).ok()?);
        file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
        Some(PerfMap::parse(&String::from_utf8_lossy(&text)))
    }

    fn parse(text: &str) -> PerfMap {
        let mut map = PerfMap::default();
        for line in text.lines() {
            let mut fields = line.splitn(3, ' ');
            let mut number = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
            if let (Some(start), Some(len)) = (number(), number())
                && let Some(name) = fields.next()
                && let Some(end) = start.checked_add(len)
            {
                map.insert(start, end, name);
            }
        }
        map
    }

    fn insert(&mut self, start: u64, end: u64, name: &str) {
        let replaced: Vec<u64> = self.pieces.range(start..end).map(|(start, _)| *start).collect();
        replaced.iter().for_each(|start| drop(self.pieces.remove(start)));
        if let Some((_, (before_end, _))) = self.pieces.range_mut(..start).next_back() {
            *before_end = (*before_end).min(start);
        }
        self.pieces.insert(start, (end, name.to_owned()));
    }

    fn find(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.pieces.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

/// Where the map of a process may be: in its root directory, with its number there.
fn paths(pid: u32) -> [PathBuf; 2] {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:")?.split_whitespace().last());
    let inner = inner.map_or_else(|| pid.to_string(), str::to_owned);
    [format!("/proc/{pid}/root/tmp/perf-{inner}.map"), format!("/tmp/perf-{pid}.map")].map(PathBuf::from)
}

/// Opens a map that was last written in a time, by a user who may name things for the caller.
fn open(path: &Path, from: SystemTime, until: SystemTime) -> Option<(File, u64)> {
    let file = OpenOptions::new().read(true).custom_flags(OPEN_FLAGS).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let own = std::fs::metadata("/proc/self").ok()?.uid();
    let is_trusted = own == 0 || metadata.uid() == own || metadata.uid() == 0;
    let is_of_process = (from..=until).contains(&metadata.modified().ok()?);
    (metadata.is_file() && is_trusted && is_of_process).then(|| (file, metadata.len().min(MOST_BYTES)))
}

/// The function of a name, and the line in which it begins. V8 writes `JS:~name file:line:column`
/// (or `LazyCompile:`, `Function:`, …; `~`, `^`, `*` mark how the code was made); other runtimes
/// write a name.
fn parse(name: &str) -> (Function, u32) {
    let whole = || (Function { name: name.to_owned(), ..Function::default() }, 0);
    let Some((kind, rest)) = name.split_once(':') else { return whole() };
    if !matches!(kind, "JS" | "LazyCompile" | "Function" | "Script" | "Eval") {
        return whole();
    }
    let rest = rest.trim_start_matches(['~', '^', '*', '+', '`']);
    let (function, place) = rest.rsplit_once(' ').unwrap_or((rest, ""));
    let mut parts = place.rsplitn(3, ':');
    let (_, line, file) = (parts.next(), parts.next(), parts.next());
    let function = if function.is_empty() { "(anonymous)" } else { function };
    let function =
        Function { name: function.to_owned(), file: file.unwrap_or("").to_owned(), ..Function::default() };
    (function, line.and_then(|line| line.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_code_replaces_earlier() {
        let map = PerfMap::parse("1000 100 first\n0x1100 80 second one\n10c0 60 third\nnonsense\n2000 zz x");
        let find = |address| map.find(address);
        assert_eq!(find(0x1000), Some("first"));
        assert_eq!(find(0x10bf), Some("first"));
        assert_eq!(find(0x10c0), Some("third"));
        assert_eq!(find(0x1100), Some("third"));
        assert_eq!((find(0x1120), find(0xfff), find(0x2000)), (None, None, None));
    }

    #[test]
    fn names_of_v8_have_files() {
        let parsed = |name: &str| {
            let (function, line) = parse(name);
            (function.name, function.file, line)
        };
        let of = |name: &str, file: &str, line| (name.to_owned(), file.to_owned(), line);
        assert_eq!(parsed("JS:~hold /app/buf.js:2:21"), of("hold", "/app/buf.js", 2));
        assert_eq!(parsed("LazyCompile:*a b node:fs:30:1"), of("a b", "node:fs", 30));
        assert_eq!(parsed("JS:^ /app/buf.js:5:1"), of("(anonymous)", "/app/buf.js", 5));
        assert_eq!(parsed("Builtin:CEntry"), of("Builtin:CEntry", "", 0));
        assert_eq!(parsed("java.util.HashMap::put"), of("java.util.HashMap::put", "", 0));
    }
}
