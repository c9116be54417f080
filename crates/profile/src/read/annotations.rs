//! Reads the lines heapwise adds to text profiles (grammar: docs/FORMATS.md).

use std::collections::HashMap;

use super::{
    error::{ReadError, quote},
    lines::{TextLine, fields, parse_hex, to_text},
    maps,
};
use crate::{
    BuildId, Cut, CutReason, CutShare, Function, FunctionId, Line, Losses, Meta, Module, ModuleId,
    ProgramEnd, Recorded, SizeBin, SizeHistogram, SizeRange, Thread, Values,
    annotation::{self, unescape},
    builder::Builder,
    metric::{Unit, column},
    model::{Position, Sampling},
};

/// Columns beyond the shared four that a file may declare.
const MOST_COLUMNS: usize = 64;
/// Size classes that a file may have.
const MOST_SIZE_CLASSES: usize = 1024;

/// All annotations of one file.
#[derive(Debug, Default)]
pub(super) struct Annotations {
    /// Whether heapwise wrote the file: then leaves are call sites, not return addresses.
    pub(super) present: bool,
    /// Version of the grammar; 0 before the line that holds it.
    version: u32,
    /// Whether the last line of the file was read.
    ended: bool,
    sizes: Vec<SizeBin>,
    pub(super) meta: Meta,
    /// Kernel id and name of thread `tN`.
    pub(super) threads: HashMap<u64, (u64, String)>,
    pub(super) modules: Vec<Module>,
    columns: Vec<(String, Unit)>,
    functions: Vec<Function>,
    symbols: HashMap<u64, Vec<Line>>,
    unmapped_paths: Vec<String>,
    /// Rows of `unmapped_paths`.
    unmapped: HashMap<u64, usize>,
    pub(super) samples: Vec<ExactSample>,
}

/// A measurement with nothing lost to jeprof's number format.
#[derive(Debug)]
pub(super) struct ExactSample {
    /// Which `@` line of the file, counted from 0.
    pub(super) stack: usize,
    /// N of `tN`.
    pub(super) thread: Option<u64>,
    pub(super) sizes: Option<SizeRange>,
    pub(super) values: Values,
    pub(super) variance: Values,
    extra: Vec<f64>,
    line: u64,
}

impl Annotations {
    /// Takes a line that begins with [`annotation::PREFIX`]; words of later versions are passed
    /// over.
    pub(super) fn take(&mut self, line: TextLine<'_>) -> Result<(), ReadError> {
        self.present = true;
        let body = line.text.get(annotation::PREFIX.len()..).unwrap_or(b"");
        let text = to_text(body);
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let known = match word {
            "build-id" => self.take_build_id(rest),
            "thread" => self.take_thread(rest),
            "column" => self.take_column(rest),
            "function" => self.take_function(rest),
            "symbol" => self.take_symbol(rest),
            "unmapped" => self.take_unmapped(rest),
            "sample" => self.take_sample(rest, line.number),
            "size" => self.take_size(rest),
            "version" => self.take_version(rest),
            "end" => self.take_end(),
            _ => self.take_meta(word, rest),
        };
        known.ok_or_else(|| {
            ReadError::at_line(
                "heapwise",
                line.number,
                format!("annotation not understood: {}", quote(line.text)),
            )
        })
    }

    fn take_meta(&mut self, word: &str, rest: &str) -> Option<()> {
        let meta = &mut self.meta;
        match word {
            "program" => meta.program = unescape(rest),
            "args" => meta.args = rest.split('\t').map(unescape).collect(),
            "pid" => meta.pid = Some(rest.parse().ok()?),
            "source" => meta.source = unescape(rest),
            "sampling" => meta.sampling = sampling(rest)?,
            "time" => meta.time_unix_ns = Some(rest.parse().ok()?),
            "duration" => meta.duration_ns = Some(rest.parse().ok()?),
            "peak" => meta.peak_bytes = Some(rest.parse().ok()?),
            "comment" => meta.comments.push(unescape(rest)),
            "lost" => meta.losses = losses(rest)?,
            "cut" => meta.cut = Some(cut(rest)?),
            "program-end" => meta.end = ProgramEnd::from_code(rest.parse().ok()?),
            "recorded" => meta.recorded = recorded(rest)?,
            _ => {}
        }
        Some(())
    }

    fn take_version(&mut self, rest: &str) -> Option<()> {
        self.version = rest.parse().ok()?;
        Some(())
    }

    fn take_end(&mut self) -> Option<()> {
        self.ended = true;
        Some(())
    }

    /// Whether the last line of a file that has one is missing.
    pub(super) fn lacks_end(&self) -> bool {
        self.version >= annotation::VERSION_WITH_END && !self.ended
    }

    /// Whether heapwise wrote the file in a version without a last line.
    pub(super) fn has_no_end(&self) -> bool {
        self.present && self.version < annotation::VERSION_WITH_END
    }

    fn take_build_id(&mut self, rest: &str) -> Option<()> {
        let mut parts = rest.splitn(4, ' ');
        let build_id = BuildId::from_hex(parts.next()?)?;
        let (range, offset) = (parts.next()?, parts.next()?);
        let path = unescape(parts.next()?);
        let offset = parse_hex(offset.as_bytes())?;
        let module = maps::module(range.as_bytes(), offset, path.as_bytes())?;
        self.modules.push(Module { build_id, ..module });
        Some(())
    }

    fn take_thread(&mut self, rest: &str) -> Option<()> {
        let mut parts = rest.splitn(3, ' ');
        let number = parts.next()?.parse().ok()?;
        let tid = parts.next()?.parse().ok()?;
        let name = unescape(parts.next().unwrap_or(""));
        self.threads.insert(number, (tid, name));
        Some(())
    }

    fn take_column(&mut self, rest: &str) -> Option<()> {
        let (unit, name) = rest.split_once(' ').filter(|_| self.columns.len() < MOST_COLUMNS)?;
        let unit = match unit {
            "bytes" => Unit::Bytes,
            "objects" => Unit::Objects,
            _ => return None,
        };
        let mut name = unescape(name);
        if self.version <= 1 {
            name = column::renamed_since_version_1(&name).to_owned();
        }
        self.columns.push((name, unit));
        Some(())
    }

    fn take_size(&mut self, rest: &str) -> Option<()> {
        let (range, values) = rest.split_once(' ').filter(|_| self.sizes.len() < MOST_SIZE_CLASSES)?;
        let values: Vec<f64> = values.split(' ').map(finite).collect::<Option<_>>()?;
        self.sizes.push(SizeBin { range: size_range(range)?, values: four(values.get(..4)?) });
        Some(())
    }

    fn take_function(&mut self, rest: &str) -> Option<()> {
        let mut parts = rest.split('\t');
        let start_line = parts.next()?.parse().ok()?;
        let mut text = || parts.next().map(unescape);
        let (name, system_name, file) = (text()?, text()?, text()?);
        self.functions.push(Function { name, system_name, file, start_line });
        Some(())
    }

    fn take_symbol(&mut self, rest: &str) -> Option<()> {
        let mut parts = rest.split(' ');
        let address = parse_hex(parts.next()?.as_bytes())?;
        let line = |part: &str| {
            let (function, line) = part.split_once(':')?;
            Some(Line { function: FunctionId(function.parse().ok()?), line: line.parse().ok()? })
        };
        let lines: Vec<Line> = parts.map(line).collect::<Option<_>>()?;
        let known = |line: &Line| line.function.index() < self.functions.len();
        if !lines.iter().all(known) {
            return None;
        }
        self.symbols.insert(address, lines);
        Some(())
    }

    fn take_unmapped(&mut self, rest: &str) -> Option<()> {
        let (addresses, path) = rest.split_once('\t')?;
        for address in addresses.split(' ') {
            self.unmapped.insert(parse_hex(address.as_bytes())?, self.unmapped_paths.len());
        }
        self.unmapped_paths.push(unescape(path));
        Some(())
    }

    fn take_sample(&mut self, rest: &str, line: u64) -> Option<()> {
        let mut parts = fields(rest.as_bytes()).map(|field| std::str::from_utf8(field).ok());
        let stack = parts.next()??.parse().ok()?;
        let thread = optional(parts.next()??, |text| text.parse().ok())?;
        let sizes = optional(parts.next()??, size_range)?;
        let numbers: Vec<f64> = parts.map(|text| finite(text?)).collect::<Option<_>>()?;
        let extra = numbers.get(8..).unwrap_or(&[]).to_vec();
        if extra.len() > self.columns.len() {
            return None;
        }
        self.samples.push(ExactSample {
            stack,
            thread,
            sizes,
            values: four(numbers.get(..4)?),
            variance: numbers.get(4..8).map(four).unwrap_or_default(),
            extra,
            line,
        });
        Some(())
    }

    /// Puts the measurements into `builder`, over the stacks of the file in order.
    pub(super) fn add_samples(
        &self,
        builder: &mut Builder,
        stacks: &[crate::StackId],
    ) -> Result<(), ReadError> {
        let columns: Vec<usize> =
            self.columns.iter().map(|(name, unit)| builder.column(name, *unit)).collect();
        for sample in &self.samples {
            let Some(stack) = stacks.get(sample.stack) else {
                let what = format!("no stack number {}", sample.stack);
                return Err(ReadError::at_line("heapwise", sample.line, what));
            };
            let thread = sample.thread.map(|number| self.thread(builder, number));
            let row = builder.add(*stack, thread, sample.sizes, sample.values, sample.variance);
            for (column, value) in columns.iter().zip(&sample.extra) {
                builder.add_extra(*column, row, *value);
            }
        }
        builder.set_sizes(SizeHistogram::new(self.sizes.iter().copied()));
        Ok(())
    }

    /// The thread that the file calls `tN`.
    pub(super) fn thread(&self, builder: &mut Builder, number: u64) -> crate::ThreadId {
        match self.threads.get(&number) {
            Some((tid, name)) => builder.numbered_thread(&Thread { tid: *tid, number, name: name.clone() }),
            None => builder.thread(number, ""),
        }
    }

    /// Completes the locations: names where the file carries them, no address where it had none.
    /// To be called when all mappings are known.
    pub(super) fn complete(&mut self, builder: &mut Builder) {
        let unmapped: Vec<ModuleId> = self
            .unmapped_paths
            .drain(..)
            .map(|path| builder.module(Module { path, ..Module::default() }))
            .collect();
        let functions: Vec<FunctionId> =
            self.functions.drain(..).map(|function| builder.function(function)).collect();
        for location in builder.locations() {
            if let Some(lines) = self.symbols.get(&location.lookup_address()) {
                location.lines = lines
                    .iter()
                    .map(|line| Line { function: functions[line.function.index()], line: line.line })
                    .collect();
            }
            let binary = self.unmapped.get(&location.lookup_address());
            location.module = binary.map(|row| unmapped[*row]);
            if self.present && location.address >= annotation::NAMED_FRAMES {
                location.address = 0;
                location.is_return_address = false;
            }
        }
    }
}

fn sampling(rest: &str) -> Option<Sampling> {
    match rest.split_once(' ') {
        None if rest == "exact" => Some(Sampling::Exact),
        Some(("poisson", mean)) => Some(Sampling::Poisson { mean_bytes: mean.parse().ok()? }),
        _ => None,
    }
}

/// Version 1 has the first four counters.
/// Numbers, then a tab and the function of an allocator inside the executable.
fn recorded(rest: &str) -> Option<Recorded> {
    let (numbers, own_allocator) = rest.split_once('\t').unwrap_or((rest, ""));
    let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    Some(Recorded::from_numbers(&numbers, unescape(own_allocator)))
}

fn losses(rest: &str) -> Option<Losses> {
    let numbers: Vec<u64> = rest.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    (numbers.len() >= 4).then(|| Losses::from_numbers(&numbers))
}

/// `line 7 ends-early 100/200 error`.
fn cut(rest: &str) -> Option<Cut> {
    let mut parts = rest.splitn(5, ' ');
    let (unit, place) = (parts.next()?, parts.next()?.parse().ok()?);
    let at = match unit {
        "byte" => Position::Byte(place),
        "line" => Position::Line(place),
        _ => return None,
    };
    let reason = parts.next()?;
    let share = optional(parts.next()?, |share| {
        let (read, stated) = share.split_once('/')?;
        Some(CutShare { read_bytes: read.parse().ok()?, stated_bytes: stated.parse().ok()? })
    })?;
    let reason = match reason {
        "ends-early" => CutReason::EndsEarly,
        "less-than-stated" => CutReason::LessThanStated,
        "damaged" => CutReason::Damaged(unescape(parts.next().unwrap_or(""))),
        _ => return None,
    };
    Some(Cut { at, reason, share })
}

/// `-` is nothing.
fn optional<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text == "-" { Some(None) } else { parse(text).map(Some) }
}

/// `64`, or `16-128`.
fn size_range(text: &str) -> Option<SizeRange> {
    let (min, max) = text.split_once('-').unwrap_or((text, text));
    let range = SizeRange { min: min.parse().ok()?, max: max.parse().ok()? };
    (range.min <= range.max).then_some(range)
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Four numbers in pprof's order.
fn four(numbers: &[f64]) -> Values {
    Values {
        alloc_objects: numbers[0],
        alloc_bytes: numbers[1],
        inuse_objects: numbers[2],
        inuse_bytes: numbers[3],
    }
}
