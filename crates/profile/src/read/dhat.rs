//! DHAT's JSON (`dhatFileVersion` 2), as Valgrind and the `dhat` crate write it.
//!
//! Total is what was ever allocated, end is what is in use. What was live at the program's peak and
//! the highest value of each site become columns.

use std::collections::HashMap;

use serde::Deserialize;

use super::error::ReadError;
use super::limit::Limit;
use crate::{
    Function, Line, Location, LocationId, Module, Profile, Values,
    builder::Builder,
    metric::{Unit, column},
};

const FORMAT: &str = "DHAT";

/// The key that every such file holds near its start.
pub(super) const KEY: &[u8] = b"\"dhatFileVersion\"";

/// Functions inlined into one call; a bound so that no stack costs quadratic time.
const MOST_INLINED: usize = 64;

#[derive(Deserialize)]
struct File {
    #[serde(rename = "dhatFileVersion")]
    version: u64,
    #[serde(default)]
    cmd: String,
    #[serde(default)]
    pid: u32,
    #[serde(default)]
    mode: String,
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

/// A program point: a stack and its numbers.
#[derive(Deserialize)]
struct Point {
    tb: u64,
    tbk: u64,
    #[serde(default)]
    mb: u64,
    #[serde(default)]
    mbk: u64,
    #[serde(default)]
    gb: u64,
    #[serde(default)]
    gbk: u64,
    #[serde(default)]
    eb: u64,
    #[serde(default)]
    ebk: u64,
    fs: Vec<usize>,
}

/// Reads a whole file.
pub(super) fn read(bytes: &[u8], limit: Limit) -> Result<Profile, ReadError> {
    limit.check_text(FORMAT, bytes.len())?;
    let file: File = serde_json::from_slice(bytes)
        .map_err(|error| ReadError::at_line(FORMAT, error.line() as u64, error.to_string()))?;
    if file.version != 2 {
        let what = format!("version {} (only 2 is known)", file.version);
        return Err(ReadError::at_line(FORMAT, 1, what));
    }
    let mut builder = Builder::new(FORMAT);
    let peak: u64 = file.pps.iter().fold(0, |sum, point| sum.saturating_add(point.gb));
    let meta = builder.meta();
    meta.args = file.cmd.split_whitespace().map(str::to_owned).collect();
    meta.program = meta.args.first().cloned().unwrap_or_default();
    meta.pid = Some(file.pid).filter(|pid| *pid != 0);
    meta.peak_bytes = Some(peak).filter(|peak| *peak != 0);
    if !matches!(file.mode.as_str(), "heap" | "rust-heap") {
        let remark = format!("DHAT mode {:?}: the numbers are not heap blocks", file.mode);
        meta.comments.push(remark);
    }
    let mut frames = FrameTable::read(&file.ftbl, &mut builder);
    let columns = [
        (column::PEAK_SPACE, Unit::Bytes),
        (column::PEAK_OBJECTS, Unit::Objects),
        (column::HIGHEST_SPACE, Unit::Bytes),
        (column::HIGHEST_OBJECTS, Unit::Objects),
    ]
    .map(|(name, unit)| builder.column(name, unit));
    for (number, point) in file.pps.iter().enumerate() {
        let leaf_first = frames.locations(&mut builder, &point.fs).ok_or_else(|| {
            let what = format!("program point {number} refers to no frame of ftbl");
            ReadError::at_line(FORMAT, 1, what)
        })?;
        let stack = builder.stack(leaf_first.into_iter().rev());
        let values = Values {
            alloc_objects: point.tbk as f64,
            alloc_bytes: point.tb as f64,
            inuse_objects: point.ebk as f64,
            inuse_bytes: point.eb as f64,
        };
        let row = builder.add(stack, None, None, values, Values::default());
        for (column, value) in columns.into_iter().zip([point.gb, point.gbk, point.mb, point.mbk]) {
            builder.add_extra(column, row, value as f64);
        }
    }
    Ok(builder.finish())
}

/// The frames of `ftbl`, combined into locations. DHAT writes inlined functions as separate frames
/// with the address of the call they are part of.
struct FrameTable {
    frames: Vec<Location>,
    known: HashMap<Vec<usize>, LocationId>,
}

impl FrameTable {
    fn read(table: &[String], builder: &mut Builder) -> Self {
        let mut modules = HashMap::new();
        let mut frame = |text: &String| {
            let frame = Frame::parse(text);
            let module = frame.module.map(|path| {
                *modules
                    .entry(path.to_owned())
                    .or_insert_with(|| builder.module(Module { path: path.to_owned(), ..Module::default() }))
            });
            let lines = match frame.name {
                "" | "???" => Vec::new(),
                name => {
                    let (name, file) = (name.to_owned(), frame.file.to_owned());
                    let function = builder.function(Function { name, file, ..Function::default() });
                    vec![Line { function, line: frame.line }]
                }
            };
            Location { address: frame.address, is_return_address: false, module, lines }
        };
        let frames = table.iter().map(&mut frame).collect();
        Self { frames, known: HashMap::new() }
    }

    /// The locations of a stack, leaf first; `None` if it refers to no frame of the table.
    fn locations(&mut self, builder: &mut Builder, leaf_first: &[usize]) -> Option<Vec<LocationId>> {
        let mut locations = Vec::new();
        let mut rest = leaf_first;
        while let Some(first) = rest.first() {
            let address = self.frames.get(*first)?.address;
            let inlined = |at: &usize| {
                let index = rest[*at];
                let same_call = self.frames.get(index).is_some_and(|frame| frame.address == address);
                // The same frame again is a recursive call, not a part of this one.
                address != 0 && same_call && !rest[..*at].contains(&index)
            };
            let length = 1 + (1..rest.len().min(MOST_INLINED)).take_while(inlined).count();
            let (call, others) = rest.split_at(length);
            locations.push(self.location(builder, call));
            rest = others;
        }
        Some(locations)
    }

    fn location(&mut self, builder: &mut Builder, frames: &[usize]) -> LocationId {
        if let Some(id) = self.known.get(frames) {
            return *id;
        }
        let lines = frames.iter().flat_map(|index| self.frames[*index].lines.iter().copied()).collect();
        let id = builder.distinct(Location { lines, ..self.frames[frames[0]].clone() });
        self.known.insert(frames.to_vec(), id);
        id
    }
}

/// `0x1091B1: leaf_a (fixture.c:10)`, `0x4866: ??? (in /usr/lib/x.so)`, `[root]`.
#[derive(Debug, PartialEq, Default)]
struct Frame<'a> {
    address: u64,
    name: &'a str,
    file: &'a str,
    line: u32,
    module: Option<&'a str>,
}

impl<'a> Frame<'a> {
    fn parse(text: &'a str) -> Self {
        let address = |(digits, rest): (&str, &'a str)| {
            let digits = digits.strip_prefix("0x")?;
            Some((u64::from_str_radix(digits, 16).ok()?, rest))
        };
        let (address, text) = text.split_once(": ").and_then(address).unwrap_or((0, text));
        let place = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
        let Some((name, place)) = place else {
            return Self { address, name: text, ..Self::default() };
        };
        let mut frame = Self { address, name, ..Self::default() };
        if let Some(path) = place.strip_prefix("in ") {
            frame.module = Some(path);
        } else if let Some((file, line)) = place.rsplit_once(':')
            && let Ok(line) = line.split(':').next().unwrap_or("").parse()
        {
            (frame.file, frame.line) = (file, line);
        } else {
            frame.name = text;
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_taken_apart() {
        let leaf = Frame::parse("0x1091B1: leaf_a (fixture.c:10)");
        assert_eq!((leaf.address, leaf.name), (0x10_91b1, "leaf_a"));
        assert_eq!((leaf.file, leaf.line), ("fixture.c", 10));
        let library = Frame::parse("0x4866: malloc (in /usr/libexec/a.so)");
        assert_eq!(library.module, Some("/usr/libexec/a.so"));
        assert_eq!(library.name, "malloc");
        let cpp = Frame::parse("0x1: f(int) (a.cpp:3)");
        assert_eq!((cpp.name, cpp.file, cpp.line), ("f(int)", "a.cpp", 3));
        assert_eq!(Frame::parse("[root]").name, "[root]");
        assert_eq!(Frame::parse("0x1: f (int)").name, "f (int)");
    }
}
