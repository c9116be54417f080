//! Common parts of jemalloc's and gperftools' text profiles: records of counts, stacks of
//! addresses, and the section behind them with mappings and annotations.

use std::collections::HashMap;

use super::{
    annotations::Annotations,
    completeness::Completeness,
    error::{ReadError, quote},
    lines::{Lines, TextLine, skip_blanks, take, take_decimal, take_hex, without_unended_line},
    maps,
    unbias::Counts,
};
use crate::{LocationId, Module, Profile, StackId, annotation, builder::Builder};

const MAPPINGS: [&[u8]; 2] = [b"MAPPED_LIBRARIES:", b"--- Memory map:"];

/// The part behind the records.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Number of its first line.
    pub(super) first_line: u64,
    /// Number of its last line, if heapwise wrote the file and its end is missing.
    pub(super) lacks_end_at: Option<u64>,
    pub(super) annotations: Annotations,
    pub(super) modules: Vec<Module>,
    /// Whether the section of mappings is there at all.
    pub(super) has_mappings: bool,
}

impl Tail {
    /// Samples of annotations are numbers of all records or of none: the records have them, too.
    fn lose_end(&mut self, line: u64) {
        self.lacks_end_at = Some(line);
        self.annotations.samples.clear();
    }
}

/// Splits a text profile at its mappings and reads the tail behind them. The tail is read first
/// because it identifies the writer of the file.
pub(super) fn split_tail(bytes: &[u8], first_line: u64) -> Result<(&[u8], Tail), ReadError> {
    let at = mappings_start(bytes);
    let (records, rest) = bytes.split_at(at.unwrap_or(bytes.len()));
    let first_line = first_line + memchr::memchr_iter(b'\n', records).count() as u64;
    let mut tail = Tail { has_mappings: at.is_some(), first_line, ..Tail::default() };
    // An annotation that is not whole would be read as another one.
    let whole = without_unended_line(rest).filter(|_| has_annotations(rest)).unwrap_or(rest);
    let mut lines = Lines::from_number(whole, first_line);
    for line in lines.by_ref().skip(1) {
        if line.text.starts_with(annotation::PREFIX.as_bytes()) {
            tail.annotations.take(line)?;
        } else if let Some(module) = maps::parse(line.text) {
            tail.modules.push(module);
        }
    }
    if tail.annotations.lacks_end() || whole.len() < rest.len() {
        tail.lose_end(lines.number() + 1);
    }
    Ok((records, tail))
}

/// Whether heapwise wrote the tail.
fn has_annotations(tail: &[u8]) -> bool {
    memchr::memmem::find(tail, annotation::PREFIX.as_bytes()).is_some()
}

/// Offset of the line that opens the mappings, searched from the end: the section is short.
fn mappings_start(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.len();
    loop {
        let start = memchr::memrchr(b'\n', &bytes[..end]).map_or(0, |newline| newline + 1);
        if MAPPINGS.iter().any(|marker| bytes[start..].starts_with(marker)) {
            return Some(start);
        }
        end = start.checked_sub(1)?;
    }
}

/// `objects: bytes [objects: bytes]` off the front of a line; blanks are free between the tokens.
pub(super) fn take_counts(text: &mut &[u8]) -> Option<Counts> {
    let number = |text: &mut &[u8]| {
        skip_blanks(text);
        take_decimal(text)
    };
    let token = |text: &mut &[u8], token: &[u8]| {
        skip_blanks(text);
        take(text, token)
    };
    let inuse_objects = number(text)?;
    token(text, b":")?;
    let inuse_bytes = number(text)?;
    token(text, b"[")?;
    let alloc_objects = number(text)?;
    token(text, b":")?;
    let alloc_bytes = number(text)?;
    token(text, b"]")?;
    Some(Counts { inuse_objects, inuse_bytes, alloc_objects, alloc_bytes })
}

/// Reads lines of addresses, leaf first, into the stacks of a profile. Neighbours have most of
/// their callers in common, which are entered only once.
#[derive(Debug, Default)]
pub(super) struct StackReader {
    /// In foreign files all addresses are return addresses; in ours the leaf is the call site,
    /// because jeprof takes leaves as they are.
    ours: bool,
    addresses: Vec<u64>,
    /// The line before.
    previous: Vec<u64>,
    /// The nodes of its callers, the root first.
    nodes: Vec<StackId>,
    locations: Vec<LocationId>,
}

impl StackReader {
    /// For a file that heapwise wrote (`ours`), or another.
    pub(super) fn new(ours: bool) -> Self {
        Self { ours, ..Self::default() }
    }

    /// The stack of one line; `None` for a line that is not a list of addresses.
    pub(super) fn read(&mut self, builder: &mut Builder, text: &[u8]) -> Option<StackId> {
        std::mem::swap(&mut self.previous, &mut self.addresses);
        self.addresses.clear();
        take_addresses(text, &mut self.addresses)?;
        if let Some(leaf) = self.addresses.first_mut() {
            *leaf = leaf.wrapping_add(u64::from(self.ours));
        }
        let callers = self.addresses.iter().rev().zip(self.previous.iter().rev());
        let shared = callers.take_while(|(address, previous)| address == previous).count();
        self.nodes.truncate(shared);
        let new = &self.addresses[..self.addresses.len() - shared];
        self.locations.clear();
        self.locations.extend(new.iter().map(|address| builder.address(*address, true)));
        for location in self.locations.iter().rev() {
            let caller = self.nodes.last().copied();
            self.nodes.push(builder.child(caller, *location));
        }
        Some(self.nodes.last().copied().unwrap_or_else(|| builder.stack([])))
    }
}

/// Appends all addresses of a line.
fn take_addresses(mut text: &[u8], addresses: &mut Vec<u64>) -> Option<()> {
    loop {
        skip_blanks(&mut text);
        if text.is_empty() {
            return Some(());
        }
        addresses.push(take_hex(&mut text)?);
        if !text.first().is_none_or(u8::is_ascii_whitespace) {
            return None;
        }
    }
}

/// Reads a text profile with `parse`. A last record that is not whole is dropped, unless it
/// completes the totals of the header: its stack or its numbers may be cut.
pub(super) fn read_cut(
    bytes: &[u8],
    first_line: u64,
    parse: impl Fn(&[u8], &mut Tail) -> Result<(Profile, Completeness), ReadError>,
) -> Result<Profile, ReadError> {
    let (records, mut tail) = split_tail(bytes, first_line)?;
    let last_line = tail.first_line;
    let without_last = without_unended_line(records).filter(|_| !tail.has_mappings);
    let Some(whole_lines) = without_last else {
        let (mut profile, mut found) = parse(records, &mut tail)?;
        // Files of versions without an end may be cut among their samples.
        if tail.annotations.has_no_end() && found.exceeds(profile.total()) {
            tail = split_tail(bytes, first_line)?.1;
            tail.lose_end(last_line);
            (profile, found) = parse(records, &mut tail)?;
        }
        profile.meta.cut = match tail.lacks_end_at {
            Some(line) => Some(found.cut(line)),
            None if !tail.has_mappings && !found.is_reached() => Some(found.cut(last_line)),
            // The probe writes totals and records of a running program one after the other.
            None if tail.annotations.present => profile.meta.cut,
            None => found.shortfall(last_line),
        };
        return Ok(profile);
    };
    let (mut profile, found) = match parse(records, &mut tail) {
        Ok((profile, found)) if found.is_reached() => (profile, found),
        _ => parse(whole_lines, &mut Tail::default())?,
    };
    profile.meta.cut = Some(found.cut(last_line));
    Ok(profile)
}

/// The profile out of the records in `builder` and the tail.
pub(super) fn finish(mut builder: Builder, tail: &mut Tail, format: &str) -> Profile {
    if tail.annotations.present {
        let source = std::mem::take(&mut builder.meta().source);
        *builder.meta() = std::mem::take(&mut tail.annotations.meta);
        if builder.meta().source.is_empty() {
            builder.meta().source = source;
        }
    }
    if !tail.has_mappings {
        let remark = format!("no mappings in this {format} file: addresses have no names");
        builder.meta().comments.push(remark);
    }
    for module in tail.modules.drain(..) {
        builder.module(module);
    }
    add_build_ids(builder.modules(), std::mem::take(&mut tail.annotations.modules));
    tail.annotations.complete(&mut builder);
    if builder.meta().program.is_empty() {
        let main = builder.modules().first().map(|module| module.path.clone());
        builder.meta().program = main.unwrap_or_default();
    }
    builder.finish()
}

/// Gives mappings the build-ids of their ranges; a range the mappings lack becomes one.
fn add_build_ids(modules: &mut Vec<Module>, annotated: Vec<Module>) {
    let by_range: HashMap<(u64, u64), usize> =
        modules.iter().enumerate().map(|(row, module)| ((module.start, module.end), row)).collect();
    for module in annotated {
        match by_range.get(&(module.start, module.end)) {
            Some(row) => modules[*row].build_id = module.build_id,
            None => modules.push(module),
        }
    }
}

/// The error for a line that is none of the format's.
pub(super) fn unexpected(format: &'static str, line: TextLine<'_>) -> ReadError {
    let what = format!("line not understood: {}", quote(line.text));
    ReadError::at_line(format, line.number, what)
}
