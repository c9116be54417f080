//! jemalloc's threaded `heap_v2/N`, which is also the form of heapwise's own profile files.
//!
//! ```text
//! heap_v2/524288
//!   t*: 395: 28596647 [0: 0]        totals: synthetic numbers, never to be added
//!   t0: 390: 28000000 [0: 0] name
//! @ 0x7f… 0x55…                     leaf first
//!   t*: 1: 100 [0: 0]
//!   t0: 1: 100 [0: 0]
//!
//! MAPPED_LIBRARIES:
//! ```

use std::collections::HashMap;

use super::{
    completeness::Completeness,
    error::{ReadError, quote},
    heap_text::{self, StackReader, Tail, take_counts, unexpected},
    limit::Limit,
    lines::{Lines, TextLine, skip_blanks, take, take_decimal, to_text},
    unbias::{Estimate, Scaling},
};
use crate::{Profile, StackId, builder::Builder};

const FORMAT: &str = "jemalloc heap_v2";

/// Prefix of the first line.
pub(super) const MAGIC: &[u8] = b"heap_v2/";

/// Part of a sum that is lost to floating point.
const NOISE: f64 = 1e-9;

/// Reads a whole file, its first line being number `first_line` of the input.
pub(super) fn read(bytes: &[u8], first_line: u64, limit: Limit) -> Result<Profile, ReadError> {
    heap_text::read_cut(bytes, first_line, |records, tail| read_records(records, first_line, limit, tail))
}

fn read_records(
    records: &[u8],
    first_line: u64,
    limit: Limit,
    tail: &mut Tail,
) -> Result<(Profile, Completeness), ReadError> {
    let mut lines = Lines::from_number(records, first_line);
    let header = lines.next().ok_or(ReadError::Empty)?;
    let scaling = parse_header(header)?;
    let mut reader = Reader {
        builder: Builder::new(FORMAT),
        scaling,
        ours: tail.annotations.present,
        stack_reader: StackReader::new(tail.annotations.present),
        stacks: Vec::new(),
        open: None,
        thread_names: HashMap::new(),
        completeness: Completeness::new(scaling),
        tail,
    };
    reader.builder.meta().sampling = scaling.sampling();
    for line in lines {
        limit.check_line(FORMAT, line, &reader.builder)?;
        reader.take(line)?;
    }
    reader.finish()
}

fn parse_header(header: TextLine<'_>) -> Result<Scaling, ReadError> {
    let mut rate = header.text.strip_prefix(MAGIC).unwrap_or(b"");
    match take_decimal(&mut rate) {
        Some(0) => Ok(Scaling::Exact),
        Some(mean) => Ok(Scaling::Poisson(mean as f64)),
        None => {
            let what = format!("no sampling rate in {}", quote(header.text));
            Err(ReadError::at_line(FORMAT, header.number, what))
        }
    }
}

struct Reader<'a> {
    builder: Builder,
    scaling: Scaling,
    ours: bool,
    stack_reader: StackReader,
    stacks: Vec<StackId>,
    open: Option<OpenRecord>,
    thread_names: HashMap<u64, String>,
    completeness: Completeness,
    tail: &'a mut Tail,
}

/// The record whose thread lines are being read.
struct OpenRecord {
    stack: StackId,
    total: Option<Estimate>,
    threads: Vec<(u64, Estimate)>,
}

impl Reader<'_> {
    fn take(&mut self, line: TextLine<'_>) -> Result<(), ReadError> {
        let text = line.text.trim_ascii();
        match text.first() {
            None | Some(b'#') => Ok(()),
            Some(b'@') => {
                self.close();
                let stack = self.stack_reader.read(&mut self.builder, &text[1..]);
                let stack = stack.ok_or_else(|| unexpected(FORMAT, line))?;
                self.stacks.push(stack);
                self.open = Some(OpenRecord { stack, total: None, threads: Vec::new() });
                Ok(())
            }
            _ => self.take_thread(text).ok_or_else(|| unexpected(FORMAT, line)),
        }
    }

    /// `tN: counts [name]` or `t*: counts`.
    fn take_thread(&mut self, mut text: &[u8]) -> Option<()> {
        take(&mut text, b"t")?;
        let thread = match take(&mut text, b"*") {
            Some(()) => None,
            None => Some(take_decimal(&mut text)?),
        };
        take(&mut text, b":")?;
        let counts = take_counts(&mut text)?;
        skip_blanks(&mut text);
        let Some(record) = &mut self.open else {
            if thread.is_none() {
                self.completeness.state(counts);
            }
            if let Some(number) = thread {
                let name = to_text(text);
                if !self.ours {
                    self.builder.thread(number, &name);
                }
                self.thread_names.insert(number, name);
            }
            return Some(());
        };
        let estimate = self.scaling.unbias(counts);
        match thread {
            None => {
                self.completeness.add(counts);
                record.total = Some(estimate);
            }
            Some(number) => record.threads.push((number, estimate)),
        }
        Some(())
    }

    /// Adds the open record. What `t*` has beyond its threads is rounding of jemalloc's synthetic
    /// numbers; it is kept, without a thread, so that a stack's sum is what jeprof prints.
    /// A rest of floating-point noise is none.
    fn close(&mut self) {
        let Some(record) = self.open.take() else {
            return;
        };
        if !self.tail.annotations.samples.is_empty() {
            return;
        }
        let mut rest = record.total.unwrap_or_default();
        for (number, estimate) in &record.threads {
            rest.values = rest.values - estimate.values;
            rest.variance = rest.variance - estimate.variance;
            let thread = self.thread(*number);
            self.builder.add(record.stack, Some(thread), None, estimate.values, estimate.variance);
        }
        let noise = record
            .total
            .map_or(f64::INFINITY, |total| NOISE * total.values.alloc_bytes.max(total.values.inuse_bytes));
        let is_noise = |value: f64| value.abs() <= noise;
        let no_rest = is_noise(rest.values.inuse_bytes) && is_noise(rest.values.alloc_bytes);
        if !no_rest || record.threads.is_empty() {
            rest.variance = positive(rest.variance);
            self.builder.add(record.stack, None, None, rest.values, rest.variance);
        }
    }

    fn thread(&mut self, number: u64) -> crate::ThreadId {
        if self.ours {
            return self.tail.annotations.thread(&mut self.builder, number);
        }
        let name = self.thread_names.get(&number).map_or("", String::as_str);
        self.builder.thread(number, name)
    }

    fn finish(mut self) -> Result<(Profile, Completeness), ReadError> {
        self.close();
        self.tail.annotations.add_samples(&mut self.builder, &self.stacks)?;
        Ok((heap_text::finish(self.builder, self.tail, FORMAT), self.completeness))
    }
}

fn positive(variance: crate::Values) -> crate::Values {
    crate::Values {
        alloc_objects: variance.alloc_objects.max(0.0),
        alloc_bytes: variance.alloc_bytes.max(0.0),
        inuse_objects: variance.inuse_objects.max(0.0),
        inuse_bytes: variance.inuse_bytes.max(0.0),
    }
}
