//! jeprof's `--raw`: a text profile behind the names of its addresses.
//!
//! ```text
//! --- symbol
//! binary=/usr/bin/program
//! 0x000055… caller--inlined callee
//! ---
//! --- heap
//! heap_v2/524288
//! ```

use std::collections::HashMap;

use super::{
    error::{ReadError, quote},
    gperftools, jemalloc,
    limit::Limit,
    lines::{Lines, parse_hex, skip_blanks, to_text},
};
use crate::{Function, Line, LocationId, Profile, builder::Builder};

const FORMAT: &str = "jeprof --raw";

/// Prefix of the first line (any blanks before the word).
pub(super) const MAGIC: &[u8] = b"---";

/// Reads the names, then the profile, then puts the names into it.
pub(super) fn read(bytes: &[u8], limit: Limit) -> Result<Profile, ReadError> {
    let mut lines = Lines::from_number(bytes, 1);
    let (names, program) = read_symbols(&mut lines);
    let mut profile = read_profile(&mut lines, limit)?;
    // A file of heapwise contains its symbols a second time, with more details.
    if profile.locations.iter().all(|location| location.lines.is_empty()) {
        attach(&mut profile, &names);
    }
    if let Some(program) = program {
        profile.meta.program = program;
    }
    profile.meta.source = format!("{FORMAT}, {}", profile.meta.source);
    Ok(profile)
}

/// Whether a line opens a section of this name.
pub(super) fn opens(line: &[u8], section: &[u8]) -> bool {
    let Some(mut rest) = line.strip_prefix(MAGIC) else {
        return false;
    };
    skip_blanks(&mut rest);
    rest.starts_with(section)
}

type Names<'a> = HashMap<u64, &'a [u8]>;

fn read_symbols<'a>(lines: &mut Lines<'a>) -> (Names<'a>, Option<String>) {
    let mut names = Names::new();
    let mut program = None;
    for line in lines.skip(1) {
        if line.text.starts_with(MAGIC) {
            break;
        }
        if let Some(path) = line.text.strip_prefix(b"binary=") {
            program = Some(to_text(path.trim_ascii()));
        } else if let Some(blank) = line.text.iter().position(u8::is_ascii_whitespace)
            && let Some(address) = parse_hex(&line.text[..blank])
        {
            let name = line.text[blank..].trim_ascii();
            // What addr2line prints for an address outside every function.
            if name != b"??" {
                names.insert(address, name);
            }
        }
    }
    (names, program)
}

fn read_profile(lines: &mut Lines<'_>, limit: Limit) -> Result<Profile, ReadError> {
    let mut ahead = lines.clone();
    let header = ahead.next().map_or(&b""[..], |line| line.text);
    if opens(header, b"heap") || opens(header, b"growth") {
        lines.next();
    }
    let (rest, first_line) = (lines.rest(), lines.number() + 1);
    if rest.starts_with(jemalloc::MAGIC) {
        return jemalloc::read(rest, first_line, limit);
    }
    if rest.starts_with(gperftools::MAGIC) || rest.starts_with(gperftools::COMMAND) {
        return gperftools::read(rest, first_line, limit);
    }
    let found = lines.next().map_or(&b""[..], |line| line.text);
    let what = format!("no heap profile behind the symbols: {}", quote(found));
    Err(ReadError::at_line(FORMAT, first_line, what))
}

/// jeprof names callers by the address before their return address and leaves by the address
/// itself; only the stacks determine which of the two a location is, so both are tried.
fn attach(profile: &mut Profile, names: &Names<'_>) {
    let mut builder = Builder::new("");
    let found: Vec<(LocationId, Vec<Line>)> = profile
        .locations
        .iter()
        .enumerate()
        .filter(|(_, location)| location.lines.is_empty())
        .filter_map(|(index, location)| {
            let name = names.get(&location.lookup_address()).or_else(|| names.get(&location.address))?;
            Some((LocationId::new(index), lines_of(&mut builder, name)))
        })
        .collect();
    let first = u32::try_from(profile.functions.len()).unwrap_or(u32::MAX);
    profile.functions.append(&mut builder.finish().functions);
    for (id, mut lines) in found {
        for line in &mut lines {
            line.function.0 += first;
        }
        profile.locations[id.index()].lines = lines;
    }
}

/// `outer--inner` is a call inlined into its caller; the model has the innermost first.
fn lines_of(builder: &mut Builder, name: &[u8]) -> Vec<Line> {
    let name = to_text(name);
    let mut lines: Vec<Line> = name
        .split("--")
        .filter(|part| !part.is_empty())
        .map(|part| Line {
            function: builder.function(Function { name: part.to_owned(), ..Function::default() }),
            line: 0,
        })
        .collect();
    lines.reverse();
    lines
}
