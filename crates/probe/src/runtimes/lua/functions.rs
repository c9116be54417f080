//! From a call of a Lua function to its file, function and line.
//!
//! Prototypes are collected as garbage, unnoticed, and others begin at the same addresses. So
//! nothing is remembered by address: lines are computed, and names are recognized by their text.
#![allow(unsafe_code)]

use heapwise_format::segment::NodePlace;

use super::calls::{INSTRUCTION, proto_at};
use super::layout::Layout;
use super::layout::common::{
    ABSOLUTE_LINES_LEN, CODE_LEN, LINES_LEN, LONG_STRING, SHORT_LENGTH, SHORT_STRING, TYPE,
};
use crate::declared_frames;
use crate::runtimes::memory::{Pages, byte, half_word, word};
use crate::runtimes::names::{self, Names};
use crate::session::Session;

/// Longest text of a source that is read, and longest name of a file.
pub(in crate::runtimes) const SOURCE_BYTES: u64 = 4096;
const FILE_BYTES: usize = 400;
/// Characters of a chunk's text in its name, as in Lua's messages.
const CHUNK_BYTES: usize = 45;

/// Names that a thread has interned. Zeroed memory is valid: none.
pub(super) struct Functions(Names);

impl Functions {
    /// The function and line of a call whose function is at `function` and whose next instruction
    /// is `next`: an encoded [`NodePlace`]. `None` when it cannot be read.
    pub(super) fn place(
        &mut self,
        session: &Session,
        layout: &Layout,
        pages: &mut Pages,
        function: u64,
        next: u64,
    ) -> Option<u64> {
        let proto = proto_at(pages, function)?;
        // SAFETY: `proto_at` has checked it.
        let field = |offset: u32| unsafe { word(proto + u64::from(offset)) };
        // SAFETY: as above.
        let number = |offset: u64| unsafe { half_word(proto + offset) };
        let code = field(layout.proto.code);
        let index = next.wrapping_sub(code) / INSTRUCTION;
        if next <= code || index > u64::from(number(CODE_LEN)) {
            return None;
        }
        let lines = Lines {
            defined: number(u64::from(layout.proto.line_defined)),
            table: field(layout.proto.line_info),
            len: number(LINES_LEN),
            absolute: match layout.proto.absolute_lines {
                0 => None,
                offset => Some((field(offset), number(ABSOLUTE_LINES_LEN))),
            },
        };
        let line = lines.line(pages, index - 1)?;
        let source = text(layout, pages, field(layout.proto.source)).unwrap_or(b"=?");
        let string = string(&mut self.0, session, source, lines.defined);
        Some(NodePlace::Declared { string, line }.encode())
    }

    /// Drops all names of another segment.
    pub(super) fn validate(&mut self, generation: u64) {
        self.0.validate(generation);
    }
}

/// The name of a function that begins in line `defined` of a source, in the segment.
pub(in crate::runtimes) fn string(names: &mut Names, session: &Session, source: &[u8], defined: u32) -> u32 {
    names.find_or_intern(names::hash(u64::from(defined), source), || {
        let (mut file, mut name) = ([0; FILE_BYTES], [0; 24]);
        let function = function_name(defined, &mut name);
        declared_frames::intern_bytes(session, function, file_name(source, &mut file))
    })
}

/// The lines of a prototype.
struct Lines {
    /// The line of the function's definition; 0: a chunk.
    defined: u32,
    /// A line for each instruction (5.3), or the difference to the one before.
    table: u64,
    len: u32,
    /// Lines of some instructions, from which differences are counted: address and number.
    absolute: Option<(u64, u32)>,
}

impl Lines {
    /// The line of an instruction; 0 without debug information.
    fn line(&self, pages: &mut Pages, index: u64) -> Option<u32> {
        if index >= u64::from(self.len) {
            return Some(0);
        }
        let Some((absolute, count)) = self.absolute else {
            let at = self.table + index * 4;
            let is_readable = at.is_multiple_of(4) && pages.holds_all(at, 4);
            // SAFETY: checked.
            return is_readable.then(|| unsafe { half_word(at) });
        };
        let (mut from, mut line) = (0, self.defined);
        let bytes = u64::from(count) * 8;
        if count != 0 && absolute.is_multiple_of(4) && pages.holds_all(absolute, bytes) {
            // SAFETY: checked.
            let entry = |at: u64| unsafe { (half_word(absolute + at * 8), half_word(absolute + at * 8 + 4)) };
            let (mut low, mut high) = (0, u64::from(count));
            while low < high {
                let middle = low.midpoint(high);
                if u64::from(entry(middle).0) <= index { low = middle + 1 } else { high = middle }
            }
            if let Some(last) = low.checked_sub(1) {
                (from, line) = (u64::from(entry(last).0) + 1, entry(last).1);
            }
        }
        // SAFETY: the table belongs to a function that runs; it does not change.
        let differences = unsafe { pages.bytes(self.table + from, (index + 1).saturating_sub(from)) }?;
        let sum: i64 = differences.iter().map(|byte| i64::from(*byte as i8)).sum();
        u32::try_from(i64::from(line) + sum).ok()
    }
}

/// The text of a string.
fn text(layout: &Layout, pages: &mut Pages, string: u64) -> Option<&'static [u8]> {
    let at = string.wrapping_add(u64::from(layout.text));
    if !string.is_multiple_of(8) || !pages.holds_all(string, u64::from(layout.text) + 8) {
        return None;
    }
    // SAFETY: checked.
    let (start, len) = unsafe {
        match byte(string + TYPE) & 0x3f {
            SHORT_STRING => (at, u64::from(byte(string + SHORT_LENGTH))),
            LONG_STRING if layout.has_text_pointer => {
                (word(at), word(string + u64::from(layout.long_length)))
            }
            LONG_STRING => (at, word(string + u64::from(layout.long_length))),
            _ => return None,
        }
    };
    // SAFETY: the source of a function that runs; strings do not change.
    unsafe { pages.bytes(start, len.min(SOURCE_BYTES)) }
}

fn function_name(defined: u32, into: &mut [u8; 24]) -> &[u8] {
    if defined == 0 {
        return b"(main chunk)";
    }
    let mut buffer = Buffer { bytes: into, len: 0 };
    buffer.push(b"function:");
    let mut digits = [0; 10];
    let mut first = digits.len();
    let mut rest = defined;
    while rest > 0 && first > 0 {
        first -= 1;
        if let Some(digit) = digits.get_mut(first) {
            *digit = b'0' + (rest % 10) as u8;
        }
        rest /= 10;
    }
    buffer.push(digits.get(first..).unwrap_or(&[]));
    buffer.text()
}

/// The name of a source, as in Lua's messages: a file's, or the start of the text.
fn file_name<'a>(source: &'a [u8], into: &'a mut [u8; FILE_BYTES]) -> &'a [u8] {
    match source {
        [b'@' | b'=', name @ ..] => {
            let surplus = name.len().saturating_sub(FILE_BYTES);
            name.get(surplus..).unwrap_or(name)
        }
        text => {
            let first = text.split(|byte| *byte == b'\n').next().unwrap_or(text);
            let is_whole = first.len() == text.len() && text.len() < CHUNK_BYTES;
            let mut buffer = Buffer { bytes: into, len: 0 };
            buffer.push(b"[string \"");
            buffer.push(first.get(..CHUNK_BYTES).unwrap_or(first));
            buffer.push(if is_whole { b"\"]" } else { b"...\"]" });
            buffer.text()
        }
    }
}

/// Text that grows in a buffer.
struct Buffer<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Buffer<'a> {
    fn push(&mut self, text: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + text.len()) {
            place.copy_from_slice(text);
            self.len += text.len();
        }
    }

    fn text(self) -> &'a [u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(source: &str) -> String {
        String::from_utf8(file_name(source.as_bytes(), &mut [0; FILE_BYTES]).to_vec()).unwrap()
    }

    #[test]
    fn sources_are_named_as_by_lua() {
        assert_eq!(file("@dir/app.lua"), "dir/app.lua");
        assert_eq!(file("=stdin"), "stdin");
        assert_eq!(file("return {}"), "[string \"return {}\"]");
        assert_eq!(file("x = 1\nreturn {}"), "[string \"x = 1...\"]");
        let long = "x".repeat(60);
        assert_eq!(file(&long), format!("[string \"{}...\"]", "x".repeat(45)));
        let path = format!("@{}/app.lua", "d".repeat(500));
        assert!(file(&path).ends_with("/app.lua") && file(&path).len() == FILE_BYTES);
    }

    #[test]
    fn functions_are_named_by_their_line() {
        assert_eq!(function_name(0, &mut [0; 24]), b"(main chunk)");
        assert_eq!(function_name(1204, &mut [0; 24]), b"function:1204");
        assert_eq!(function_name(u32::MAX, &mut [0; 24]), b"function:4294967295");
    }

    fn pages() -> &'static mut Pages {
        let memory = crate::sys::map_private(size_of::<Pages>()).unwrap();
        // SAFETY: zeroed memory of that size is valid, and leaked.
        unsafe { &mut *memory.cast() }
    }

    #[test]
    fn lines_of_instructions() {
        let differences: Vec<i8> =
            (0..300).map(|at| if at == 128 { -128 } else { (at % 3) as i8 - 1 }).collect();
        let absolute = [128_u32, 1000];
        let address = |pointer: *const u8| pointer.expose_provenance() as u64;
        let lines = Lines {
            defined: 10,
            table: address(differences.as_ptr().cast()),
            len: 300,
            absolute: Some((address(absolute.as_ptr().cast()), 1)),
        };
        let sum = |range: core::ops::RangeInclusive<usize>| -> i64 {
            differences[range].iter().map(|difference| i64::from(*difference)).sum()
        };
        assert_eq!(lines.line(pages(), 0), Some(9));
        assert_eq!(lines.line(pages(), 127).map(i64::from), Some(10 + sum(0..=127)));
        assert_eq!(lines.line(pages(), 128), Some(1000));
        assert_eq!(lines.line(pages(), 200).map(i64::from), Some(1000 + sum(129..=200)));
        assert_eq!(lines.line(pages(), 300), Some(0));
    }
}
