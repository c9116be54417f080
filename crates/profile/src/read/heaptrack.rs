//! heaptrack's files, versions 0 to 3, raw (`heaptrack --raw`) or interpreted.
//!
//! A stream of lines, all numbers hexadecimal: strings, instruction pointers and traces are defined
//! before they are used, then `+` and `-` events. The file is read in one pass and never held in
//! memory: an hour of a busy program unfolds to many gigabytes.

mod accounts;
mod fields;
mod frames;

use std::io::{self, BufRead, ErrorKind, Read as _};

use accounts::Accounts;
use fields::Fields;
use frames::Frames;

use super::error::{Position, ReadError, quote};
use super::limit::Limit;
use crate::{Cut, CutReason, Profile, builder::Builder};

const FORMAT: &str = "heaptrack";

/// Longer lines are damage: names of C++ functions reach a few megabytes.
const MOST_LINE_BYTES: u64 = 16 << 20;

/// Lines between two looks at the memory of the tables.
const LINES_BETWEEN_CHECKS: u64 = 64;

/// Newest version of the format.
const NEWEST: u64 = 3;

/// What heaptrack called version 1 before it had a version number for files.
const UNNUMBERED_VERSION_1: u64 = 0x01_02_00;

/// Whether a file begins with heaptrack's version line, `v 10400 3`.
pub(super) fn is_heaptrack(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or(b"");
    let Some(rest) = line.strip_prefix(b"v ") else {
        return false;
    };
    !rest.is_empty() && rest.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b' ')
}

/// Reads a whole stream of decompressed lines. A file whose writer was killed, or that was damaged
/// later, yields its contents up to there, with a warning.
pub(super) fn read(mut input: impl BufRead, limit: Limit) -> Result<Profile, ReadError> {
    let mut reader = Reader { limit, ..Reader::default() };
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let taken = input.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line);
        if line.len() as u64 == MOST_LINE_BYTES {
            return Err(ReadError::at_line(FORMAT, number, "a line of 16 MiB"));
        }
        if number % LINES_BETWEEN_CHECKS == 0 {
            limit.check(FORMAT, reader.held_bytes())?;
        }
        let text = match (&taken, line.strip_suffix(b"\n")) {
            (_, Some(text)) => text,
            (Ok(0), None) => break,
            _ if number > 1 && !is_too_large(&taken) => {
                reader.remark_end(number, taken.err());
                break;
            }
            (Ok(_), None) => {
                return Err(ReadError::at_line(FORMAT, number, "the file ends within its first line"));
            }
            (Err(error), None) => {
                let what = format!("decompression stopped: {error}");
                return Err(ReadError::at_line(FORMAT, number, what));
            }
        };
        let taken = reader.take(text);
        if taken.is_err() {
            // A line that would exceed the limit is not read to its end.
            limit.check(FORMAT, reader.held_bytes())?;
        }
        taken.map_err(|what| ReadError::Malformed {
            format: FORMAT,
            at: Position::Line(number),
            what: format!("{what}: {}", quote(text)),
        })?;
    }
    limit.check(FORMAT, reader.held_bytes())?;
    Ok(reader.finish())
}

/// Input beyond the size limit is rejected: it does not count as damage.
fn is_too_large(taken: &io::Result<usize>) -> bool {
    taken.as_ref().is_err_and(|error| error.kind() == ErrorKind::FileTooLarge)
}

#[derive(Default)]
struct Reader {
    limit: Limit,
    builder: Builder,
    version: u64,
    /// Set by lines that only raw files have; then traces name addresses and events pointers.
    raw: bool,
    frames: Frames,
    accounts: Accounts,
    last_ms: u64,
}

impl Reader {
    fn take(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let Some(kind) = line.first() else {
            return Ok(());
        };
        let mut fields = Fields::new(line.get(2..).unwrap_or(b""), self.version >= 3);
        match kind {
            b'+' => self.allocate(&mut fields).ok_or("no allocation")?,
            b'-' => self.free(&mut fields).ok_or("no deallocation")?,
            b'a' => self.declare(&mut fields).ok_or("no allocation info")?,
            b't' => self.trace(&mut fields).ok_or("no trace")?,
            b'i' => {
                let taken = self.frames.take_pointer(&mut self.builder, &mut fields, self.limit);
                taken.ok_or("no instruction pointer")?;
            }
            b's' => self.frames.take_string(&mut fields).ok_or("no string")?,
            b'm' => self.frames.take_module(&mut fields, &self.builder.meta().program).ok_or("no module")?,
            b'c' => self.last_ms = fields.hex().ok_or("no time stamp")?.max(self.last_ms),
            b'v' => self.take_version(&mut fields)?,
            b'x' => self.builder.meta().program = fields.text().ok_or("no program")?,
            b'X' => self.take_command(fields.rest()),
            b'A' => {
                let remark = "heaptrack attached late: earlier allocations are unknown";
                self.builder.meta().comments = vec![remark.to_owned()];
            }
            b'R' | b'I' | b'S' | b'#' => {}
            _ => return Err("line not understood"),
        }
        self.raw |= matches!(kind, b'x' | b'm');
        Ok(())
    }

    fn take_version(&mut self, fields: &mut Fields<'_>) -> Result<(), &'static str> {
        let program = fields.hex().ok_or("no version")?;
        self.version = match fields.hex() {
            Some(version) => version,
            None => u64::from(program == UNNUMBERED_VERSION_1),
        };
        match self.version > NEWEST {
            true => Err("a version of the format that is not known here"),
            false => Ok(()),
        }
    }

    fn take_command(&mut self, command: &[u8]) {
        let meta = self.builder.meta();
        let command = String::from_utf8_lossy(command);
        meta.args = command.split_whitespace().map(str::to_owned).collect();
        if meta.program.is_empty() {
            meta.program = meta.args.first().cloned().unwrap_or_default();
        }
    }

    fn trace(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        let (pointer, parent) = (fields.hex()?, fields.hex()?);
        let location = match self.raw {
            true => self.frames.raw_pointer(&mut self.builder, pointer),
            false => self.frames.pointer(&mut self.builder, pointer)?,
        };
        self.frames.take_trace(&mut self.builder, location, parent)
    }

    /// Whether events hold pointers instead of allocation infos.
    fn by_pointer(&self) -> bool {
        self.raw || self.version == 0
    }

    fn declare(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        let (size, trace) = (fields.hex()?, fields.hex()?);
        let stack = self.frames.stack(&mut self.builder, trace)?;
        self.accounts.declare(size, stack);
        Some(())
    }

    fn allocate(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        if !self.by_pointer() {
            return self.accounts.allocate(fields.index()?);
        }
        let (size, trace, address) = (fields.hex()?, fields.hex()?, fields.hex()?);
        let stack = self.frames.stack(&mut self.builder, trace)?;
        self.accounts.allocate_at(address, size, stack);
        Some(())
    }

    fn free(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        if !self.by_pointer() {
            return self.accounts.free(fields.index()?);
        }
        self.accounts.free_at(fields.hex()?);
        Some(())
    }

    /// Stores that the file ends within a line, by itself or by `damage`.
    fn remark_end(&mut self, line: u64, damage: Option<io::Error>) {
        let reason = damage.map_or(CutReason::EndsEarly, |error| CutReason::Damaged(error.to_string()));
        self.builder.meta().cut = Some(Cut { at: Position::Line(line), reason, share: None });
    }

    /// Memory of all tables, roughly.
    fn held_bytes(&self) -> u64 {
        // Accounts become samples in the end.
        self.builder.held_bytes() + self.frames.held_bytes() + 2 * self.accounts.held_bytes()
    }

    fn finish(mut self) -> Profile {
        let meta = self.builder.meta();
        meta.source = format!("{FORMAT} v{}", self.version);
        meta.duration_ns = Some(self.last_ms.saturating_mul(1_000_000)).filter(|ns| *ns > 0);
        meta.peak_bytes = Some(self.accounts.peak_bytes());
        self.accounts.add_to(&mut self.builder);
        self.builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::metric::column;

    #[test]
    fn versions_differ_in_strings_and_events() {
        let sized = "v 10400 3\ns 4 ma n\ni 1000 1\nt 1 0\na 10 1\n+ 0\n+ 0\n- 0\n";
        let unsized_ = "v 10200\ns ma n\ni 1000 1\nt 1 0\na 10 1\n+ 0\n+ 0\n- 0\n";
        let pointers = "v 10000 0\ns ma n\ni 1000 1\nt 1 0\n+ 10 1 aa\n+ 10 1 bb\n- bb\n- cc\n";
        let raw = "v 10400 3\nx 4 ma n\nm 1 x 0 0 2000\nt 1000 0\n+ 10 1 aa\n+ 10 1 bb\n- bb\n";
        for file in [sized, unsized_, pointers, raw] {
            let profile = read(file.as_bytes(), Limit::default()).unwrap();
            let total = profile.total();
            assert_eq!((total.alloc_objects, total.alloc_bytes), (2.0, 32.0), "{file}");
            assert_eq!((total.inuse_objects, total.inuse_bytes), (1.0, 16.0), "{file}");
            assert_eq!(profile.meta.peak_bytes, Some(32), "{file}");
            let location = &profile.locations[0];
            let module = location.module.unwrap();
            assert_eq!(profile.modules[module.index()].path, "ma n", "{file}");
            for (name, value) in [(column::PEAK_OBJECTS, 2.0), (column::TEMPORARY_OBJECTS, 1.0)] {
                assert_eq!(profile.column(name).unwrap().values[0], value, "{file}");
            }
        }
    }

    #[test]
    fn a_file_cut_anywhere_yields_its_whole_lines_and_says_so() {
        let file = "v 10400 3\ns 4 ma n\ni 1000 1\nt 1 0\na 10 1\n+ 0\n+ 0\n- 0\n";
        for length in 1..file.len() {
            let cut = &file[..length];
            let lines = &cut[..cut.rfind('\n').map_or(0, |end| end + 1)];
            let profile = match read(cut.as_bytes(), Limit::default()) {
                Ok(profile) => profile,
                Err(error) => {
                    assert!(lines.is_empty(), "{cut:?}: {error}");
                    continue;
                }
            };
            assert_eq!(profile.meta.cut.is_none(), cut.ends_with('\n'), "{cut:?}");
            assert_eq!(profile.total(), read(lines.as_bytes(), Limit::default()).unwrap().total(), "{cut:?}");
        }
    }

    #[test]
    fn an_index_out_of_range_is_an_error_that_names_its_line() {
        for bad in ["+ 0", "- 5", "a 10 7", "t 9 0", "t 0 9", "v 1 9", "? 1", "+", "+ zz"] {
            let file = format!("v 10400 3\n{bad}\n");
            let error = read(file.as_bytes(), Limit::default()).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{bad}: {error}");
        }
    }
}
