//! Callgrind's format as Valgrind's xtree writes heaps: every stack as a chain of calls whose
//! inclusive cost is that of its leaf.

use heapwise_profile::printable::printable;
use std::{
    collections::HashMap,
    io::{self, Write},
};

use heapwise_profile::{Profile, Values};

use super::frames::{FrameList, NamedFrame, coverage_comment, whole};

/// The events of memcheck's `--xtree-memory=full`.
const EVENTS: [(&str, &str); 6] = [
    ("curB", "currently allocated Bytes"),
    ("curBk", "currently allocated Blocks"),
    ("totB", "total allocated Bytes"),
    ("totBk", "total allocated Blocks"),
    ("totFdB", "total Freed Bytes"),
    ("totFdBk", "total Freed Blocks"),
];

/// What Valgrind calls the file of code without line information.
const UNKNOWN_FILE: &str = "UnknownFile???";

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    write_header(profile, out)?;
    let frames = FrameList::new(profile);
    let mut names = Names::default();
    let mut totals = [0; EVENTS.len()];
    for sample in &profile.samples {
        let costs = costs(&sample.values);
        if costs == [0; EVENTS.len()] {
            continue;
        }
        for (total, cost) in totals.iter_mut().zip(costs) {
            *total = i64::saturating_add(*total, cost);
        }
        write_stack(&frames.root_to_leaf(sample.stack), &joined(&costs), &mut names, out)?;
    }
    writeln!(out, "totals: {}", joined(&totals))
}

fn write_header(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# callgrind format\nversion: 1\ncreator: heapwise-{}", env!("CARGO_PKG_VERSION"))?;
    if let Some(pid) = profile.meta.pid {
        writeln!(out, "pid: {pid}")?;
    }
    let command =
        if profile.meta.args.is_empty() { profile.meta.program.clone() } else { profile.meta.args.join(" ") };
    writeln!(out, "cmd: {}", printable(&command))?;
    writeln!(out, "desc: {}", coverage_comment(profile))?;
    writeln!(out, "\npositions: line")?;
    for (event, meaning) in EVENTS {
        writeln!(out, "event: {event} : {meaning}")?;
    }
    writeln!(out, "events: {}", EVENTS.map(|(event, _)| event).join(" "))
}

fn costs(values: &Values) -> [i64; EVENTS.len()] {
    let freed = [values.alloc_bytes - values.inuse_bytes, values.alloc_objects - values.inuse_objects];
    [
        values.inuse_bytes,
        values.inuse_objects,
        values.alloc_bytes,
        values.alloc_objects,
        freed[0].max(0.0),
        freed[1].max(0.0),
    ]
    .map(whole)
}

fn joined(costs: &[i64]) -> String {
    costs.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

fn write_stack(
    frames: &[&NamedFrame<'_>],
    costs: &str,
    names: &mut Names,
    out: &mut dyn Write,
) -> io::Result<()> {
    for pair in frames.windows(2) {
        let (caller, callee) = (pair[0], pair[1]);
        let (line, called_line) = (caller.line, callee.line);
        writeln!(out, "fl={}\nfn={}\n{line}", names.file(caller), names.function(caller))?;
        writeln!(out, "cfi={}\ncfn={}", names.file(callee), names.function(callee))?;
        writeln!(out, "calls=0 {called_line}\n{line} {costs}")?;
    }
    if let Some(leaf) = frames.last() {
        writeln!(out, "fl={}\nfn={}", names.file(leaf), names.function(leaf))?;
        writeln!(out, "{} {costs}\n", leaf.line)?;
    }
    Ok(())
}

/// Name compression: `(7) name` at first, `(7)` afterwards.
#[derive(Default)]
struct Names {
    files: HashMap<String, usize>,
    functions: HashMap<String, usize>,
}

impl Names {
    fn file(&mut self, frame: &NamedFrame<'_>) -> String {
        let file = if frame.file.is_empty() { UNKNOWN_FILE } else { frame.file };
        compress(&mut self.files, file)
    }

    fn function(&mut self, frame: &NamedFrame<'_>) -> String {
        compress(&mut self.functions, &frame.name)
    }
}

fn compress(known: &mut HashMap<String, usize>, name: &str) -> String {
    if let Some(number) = known.get(name) {
        return format!("({number})");
    }
    let number = known.len() + 1;
    known.insert(name.to_owned(), number);
    format!("({number}) {}", printable(name))
}
