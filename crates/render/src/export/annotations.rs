//! The lines heapwise adds behind the mappings of a text profile (grammar: docs/FORMATS.md).

use heapwise_profile::printable::printable;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
};

use heapwise_profile::{
    Cut, CutReason, LocationId, Meta, Module, Profile, ProgramEnd, Recorded, Sample, Sampling, SizeRange,
    Values, annotation, coverage::Coverage, metric::Unit,
};

use crate::{Language, coverage};

use super::{
    frames::return_address,
    heap_records::{Counts, Record},
};

/// Writes the mappings, then all annotations.
pub(super) fn write_tail(profile: &Profile, records: &[Record], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nMAPPED_LIBRARIES:")?;
    for module in profile.modules.iter().filter(|module| !is_unmapped(module)) {
        let (start, end, offset) = (module.start, module.end, module.file_offset);
        writeln!(out, "{start:x}-{end:x} r-xp {offset:08x} 00:00 0    {}", printable(&module.path))?;
    }
    let mut lines = Lines { out };
    lines.meta(&profile.meta)?;
    // For people: readers derive it from the facts above.
    lines.text("coverage", &coverage::line(&Coverage::of(profile), Language::English))?;
    lines.modules(profile)?;
    lines.threads(profile)?;
    lines.symbols(profile)?;
    lines.unmapped(profile)?;
    lines.samples(profile, records)?;
    lines.sizes(profile)?;
    lines.line(format_args!("end"))
}

/// `objects: bytes [objects: bytes]`, in use first.
pub(super) fn counts_text(counts: &Counts) -> String {
    format!("{}: {} [{}: {}]", counts.inuse.0, counts.inuse.1, counts.alloc.0, counts.alloc.1)
}

struct Lines<'a> {
    out: &'a mut dyn Write,
}

impl Lines<'_> {
    fn line(&mut self, body: std::fmt::Arguments<'_>) -> io::Result<()> {
        writeln!(self.out, "{}{body}", annotation::PREFIX)
    }

    fn text(&mut self, word: &str, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.line(format_args!("{word} {}", annotation::escape(text)))
    }

    fn number(&mut self, word: &str, number: Option<u64>) -> io::Result<()> {
        number.map_or(Ok(()), |number| self.line(format_args!("{word} {number}")))
    }

    fn meta(&mut self, meta: &Meta) -> io::Result<()> {
        self.line(format_args!("version {}", annotation::VERSION))?;
        self.text("program", &meta.program)?;
        if !meta.args.is_empty() {
            let args: Vec<String> = meta.args.iter().map(|arg| annotation::escape(arg)).collect();
            self.line(format_args!("args {}", args.join("\t")))?;
        }
        self.text("source", &meta.source)?;
        match meta.sampling {
            Sampling::Exact => self.line(format_args!("sampling exact"))?,
            Sampling::Poisson { mean_bytes } => self.line(format_args!("sampling poisson {mean_bytes}"))?,
        }
        self.number("pid", meta.pid.map(u64::from))?;
        self.number("time", meta.time_unix_ns)?;
        self.number("duration", meta.duration_ns)?;
        self.number("peak", meta.peak_bytes)?;
        let lost = meta.losses.numbers().map(|number| number.to_string());
        self.line(format_args!("lost {}", lost.join(" ")))?;
        self.cut(meta.cut.as_ref())?;
        if meta.end != ProgramEnd::Unknown {
            self.line(format_args!("program-end {}", meta.end.code()))?;
        }
        if meta.recorded != Recorded::default() {
            let numbers = meta.recorded.numbers().map(|number| number.to_string()).join(" ");
            let own_allocator = annotation::escape(&meta.recorded.own_allocator);
            self.line(format_args!("recorded {numbers}\t{own_allocator}"))?;
        }
        meta.comments.iter().try_for_each(|comment| self.text("comment", comment))
    }

    fn cut(&mut self, cut: Option<&Cut>) -> io::Result<()> {
        let Some(Cut { at, reason, share }) = cut else { return Ok(()) };
        let share =
            share.map_or("-".to_owned(), |share| format!("{}/{}", share.read_bytes, share.stated_bytes));
        match reason {
            CutReason::EndsEarly => self.line(format_args!("cut {at} ends-early {share}")),
            CutReason::LessThanStated => self.line(format_args!("cut {at} less-than-stated {share}")),
            CutReason::Damaged(error) => {
                self.line(format_args!("cut {at} damaged {share} {}", annotation::escape(error)))
            }
        }
    }

    fn modules(&mut self, profile: &Profile) -> io::Result<()> {
        for module in
            profile.modules.iter().filter(|module| !module.build_id.is_empty() && !is_unmapped(module))
        {
            let (start, end, offset) = (module.start, module.end, module.file_offset);
            let path = annotation::escape(&module.path);
            self.line(format_args!("build-id {} {start:x}-{end:x} {offset:x} {path}", module.build_id))?;
        }
        Ok(())
    }

    fn threads(&mut self, profile: &Profile) -> io::Result<()> {
        for (number, thread) in profile.threads.iter().enumerate() {
            let name = annotation::escape(&thread.name);
            self.line(format_args!("thread {number} {} {name}", thread.tid))?;
        }
        Ok(())
    }

    fn symbols(&mut self, profile: &Profile) -> io::Result<()> {
        for function in &profile.functions {
            let [name, system_name, file] =
                [&function.name, &function.system_name, &function.file].map(|text| annotation::escape(text));
            self.line(format_args!("function {}\t{name}\t{system_name}\t{file}", function.start_line))?;
        }
        let mut symbols = BTreeMap::new();
        for (row, location) in profile.locations.iter().enumerate().filter(|(_, one)| !one.lines.is_empty()) {
            let lines = location.lines.iter().map(|line| format!("{}:{}", line.function.0, line.line));
            symbols.insert(call_address(profile, row), lines.collect::<Vec<_>>().join(" "));
        }
        symbols
            .into_iter()
            .try_for_each(|(address, lines)| self.line(format_args!("symbol {address:#x} {lines}")))
    }

    /// Binaries without a mapping in the source, with the addresses that the source assigns to
    /// them.
    fn unmapped(&mut self, profile: &Profile) -> io::Result<()> {
        let mut binaries: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for (row, location) in profile.locations.iter().enumerate() {
            let module = location.module.map(|id| id.index());
            if let Some(module) = module.filter(|row| is_unmapped(&profile.modules[*row])) {
                binaries.entry(module).or_default().insert(call_address(profile, row));
            }
        }
        for (module, addresses) in binaries {
            let path = annotation::escape(&profile.modules[module].path);
            let addresses: Vec<String> = addresses.iter().map(|address| format!("{address:#x}")).collect();
            self.line(format_args!("unmapped {}\t{path}", addresses.join(" ")))?;
        }
        Ok(())
    }

    fn samples(&mut self, profile: &Profile, records: &[Record]) -> io::Result<()> {
        for column in &profile.extra {
            let unit = match column.unit {
                Unit::Bytes => "bytes",
                Unit::Objects => "objects",
            };
            self.line(format_args!("column {unit} {}", annotation::escape(&column.name)))?;
        }
        for (number, record) in records.iter().enumerate() {
            for row in &record.samples {
                self.sample(profile, number, *row)?;
            }
        }
        Ok(())
    }

    fn sample(&mut self, profile: &Profile, stack: usize, row: usize) -> io::Result<()> {
        let Sample { thread, sizes, values, variance, .. } = &profile.samples[row];
        let thread = thread.map_or("-".to_owned(), |thread| thread.0.to_string());
        let sizes = sizes.map_or("-".to_owned(), range);
        let mut numbers = four(values);
        if *variance != Values::default() || !profile.extra.is_empty() {
            numbers += &four(variance);
        }
        for column in &profile.extra {
            numbers += &format!(" {}", column.values[row]);
        }
        self.line(format_args!("sample {stack} {thread} {sizes}{numbers}"))
    }

    fn sizes(&mut self, profile: &Profile) -> io::Result<()> {
        profile
            .sizes
            .bins
            .iter()
            .try_for_each(|bin| self.line(format_args!("size {}{}", range(bin.range), four(&bin.values))))
    }
}

/// The address inside the call of a location, as stacks of the file have it.
fn call_address(profile: &Profile, row: usize) -> u64 {
    return_address(profile, LocationId::new(row)) - 1
}

/// Whether a binary is known by its path alone.
fn is_unmapped(module: &Module) -> bool {
    module.start >= module.end
}

/// `64`, or `16-128`.
fn range(sizes: SizeRange) -> String {
    match sizes.single() {
        Some(size) => size.to_string(),
        None => format!("{}-{}", sizes.min, sizes.max),
    }
}

/// Four numbers in pprof's order, with as many digits as it takes to read them back unchanged.
fn four(values: &Values) -> String {
    let Values { alloc_objects, alloc_bytes, inuse_objects, inuse_bytes } = values;
    format!(" {alloc_objects} {alloc_bytes} {inuse_objects} {inuse_bytes}")
}
