//! The frames of a state: from its stack of values to files, functions and lines.
//!
//! A frame is two values below the function's registers: the function, and a link. The link is the
//! caller's next instruction, or the distance to the caller's frame and a kind. Where a frame was
//! not called by an instruction, the C frame that runs the function has the next instruction.
//! Layouts are those of LuaJIT 2.1 with 64-bit references (`LJ_GC64`).
#![allow(unsafe_code)]

use heapwise_format::segment::NodePlace;

use super::states::Running;
use crate::runtimes::lua::functions::{SOURCE_BYTES, string};
use crate::runtimes::memory::{Pages, byte, half_word, word};
use crate::runtimes::names::Names;
use crate::session::Session;

/// Most frames that are read of a state.
const MOST: usize = 4096;
/// Bytes of a value.
const VALUE: u64 = 8;
/// The bits of a value that are an address.
const ADDRESS: u64 = (1 << 47) - 1;
/// In a state: the registers of the innermost function, and the stack of values.
const BASE: u64 = 32;
const STACK: u64 = 56;
/// In every object: the type. In a function: whether it is one of Lua (0), and its code.
const TYPE: u64 = 9;
const FUNCTION: u8 = 8;
const STRING: u8 = 4;
const KIND: u64 = 10;
const CODE: u64 = 32;
/// The prototype precedes the code.
const PROTO_BYTES: u64 = 104;
const CODE_LEN: u64 = 12;
const CHUNK_NAME: u64 = 64;
const FIRST_LINE: u64 = 72;
const LINES: u64 = 76;
const LINE_TABLE: u64 = 80;
/// In a string.
const LENGTH: u64 = 20;
const TEXT: u64 = 24;
/// In a C frame: the next instruction, the frame before, the number of results.
const NEXT: u64 = 24;
const PREVIOUS: u64 = 32;
const RESULTS: u64 = 8;

/// Kinds of links.
const KIND_BITS: u64 = 3;
const FULL_KIND_BITS: u64 = 7;
const LUA: u64 = 0;
const C: u64 = 1;
const CONTINUATION: u64 = 2;
const VARIABLE_ARGUMENTS: u64 = 3;
/// The continuation of a callback from C.
const CALLBACK: u64 = 1;

/// Calls `act` with the encoded [`NodePlace`] of each Lua function, the innermost first.
pub(super) fn read(
    session: &Session,
    pages: &mut Pages,
    names: &mut Names,
    running: &Running,
    act: &mut dyn FnMut(u64),
) {
    let Some(mut walk) = Walk::new(pages, running) else { return };
    for _ in 0..MOST {
        let Some(link) = walk.link(pages) else { return };
        if !walk.is_continued
            && let Some(next) = walk.next_instruction(pages)
            && let Some(function) = walk.function(pages)
            && let Some(place) = place(session, pages, names, function, next)
        {
            act(place);
        }
        if walk.leave(pages, link).is_none() {
            return;
        }
    }
}

/// A walk from the innermost frame outwards.
struct Walk {
    state: u64,
    /// The end of the frames.
    bottom: u64,
    /// The link of the frame.
    frame: u64,
    /// The frame that it has called; 0: none.
    inner: u64,
    /// The C frame that runs it.
    c_frame: u64,
    /// It is the start of the frame before, which has variable arguments.
    is_continued: bool,
}

impl Walk {
    fn new(pages: &mut Pages, running: &Running) -> Option<Walk> {
        let stack = pages.word(running.state + STACK)?;
        let frame = pages.word(running.state + BASE)?.wrapping_sub(VALUE);
        let state = running.state;
        Some(Walk {
            state,
            bottom: stack.wrapping_add(VALUE),
            frame,
            inner: 0,
            c_frame: running.c_frame,
            is_continued: false,
        })
    }

    /// The link of the frame; `None` at the end.
    fn link(&self, pages: &mut Pages) -> Option<u64> {
        if self.frame <= self.bottom { None } else { pages.word(self.frame) }
    }

    fn function(&self, pages: &mut Pages) -> Option<u64> {
        let function = pages.word(self.frame.wrapping_sub(VALUE))? & ADDRESS;
        (function != self.state).then_some(function)
    }

    /// The next instruction of the frame's function, if it is one of Lua.
    fn next_instruction(&mut self, pages: &mut Pages) -> Option<u64> {
        if self.inner == 0 {
            return self.saved_instruction(pages);
        }
        let link = pages.word(self.inner)?;
        match (link & KIND_BITS, link & FULL_KIND_BITS) {
            (LUA, _) => Some(link),
            (_, CONTINUATION) => pages.word(self.inner.wrapping_sub(2 * VALUE)),
            _ => self.saved_instruction(pages),
        }
    }

    /// The next instruction that the C frame has.
    fn saved_instruction(&mut self, pages: &mut Pages) -> Option<u64> {
        // Frames of protected calls in C run no function.
        loop {
            // SAFETY: `holds_all` has checked it.
            let results = pages
                .holds_all(self.c_frame, PREVIOUS + 8)
                .then(|| unsafe { half_word(self.c_frame + RESULTS) as i32 })?;
            let stack = self.bottom.wrapping_sub(VALUE);
            if results >= 0 || self.frame >= stack.wrapping_add(i64::from(results).unsigned_abs()) {
                return pages.word(self.c_frame + NEXT);
            }
            self.leave_c_frame(pages)?;
        }
    }

    fn leave_c_frame(&mut self, pages: &mut Pages) -> Option<()> {
        let previous = pages.word(self.c_frame + PREVIOUS)? & !3;
        // Outwards on the C stack.
        self.c_frame = Some(previous).filter(|previous| *previous > self.c_frame)?;
        Some(())
    }

    /// Goes to the caller's frame.
    fn leave(&mut self, pages: &mut Pages, link: u64) -> Option<()> {
        let kind = link & FULL_KIND_BITS;
        let outer = match link & KIND_BITS {
            LUA => {
                let call = link.wrapping_sub(4);
                let is_readable = call.is_multiple_of(4) && pages.holds_all(call, 4);
                // SAFETY: checked.
                let register = is_readable.then(|| unsafe { half_word(call) } >> 8 & 0xff)?;
                self.frame.wrapping_sub((2 + u64::from(register)) * VALUE)
            }
            by_distance => {
                let is_callback =
                    kind == CONTINUATION && pages.word(self.frame.wrapping_sub(3 * VALUE)) == Some(CALLBACK);
                if by_distance == C || is_callback {
                    // The outermost frame has none before it.
                    let _ = self.leave_c_frame(pages);
                }
                self.frame.wrapping_sub(link & !FULL_KIND_BITS)
            }
        };
        self.is_continued = kind == VARIABLE_ARGUMENTS;
        self.inner = self.frame;
        self.frame = Some(outer).filter(|outer| *outer < self.frame)?;
        Some(())
    }
}

/// The place of a Lua function at its next instruction; `None` where it is another function, or
/// cannot be read.
fn place(session: &Session, pages: &mut Pages, names: &mut Names, function: u64, next: u64) -> Option<u64> {
    if !function.is_multiple_of(8) || !pages.holds_all(function, CODE + 8) {
        return None;
    }
    // SAFETY: checked.
    let (kind, is_other, code) =
        unsafe { (byte(function + TYPE), byte(function + KIND) != 0, word(function + CODE)) };
    let proto = code.wrapping_sub(PROTO_BYTES);
    if kind != FUNCTION || is_other || !proto.is_multiple_of(8) || !pages.holds_all(proto, PROTO_BYTES) {
        return None;
    }
    // SAFETY: checked.
    let number = |offset| unsafe { half_word(proto + offset) };
    let (first, lines, len) = (number(FIRST_LINE), number(LINES), u64::from(number(CODE_LEN)));
    let index = (next.wrapping_sub(code) / 4).checked_sub(1).filter(|index| *index <= len)?;
    // SAFETY: checked.
    let (table, chunk) = unsafe { (word(proto + LINE_TABLE), word(proto + CHUNK_NAME)) };
    let line = line(pages, table, first, lines, index, len);
    let source = text(pages, chunk).unwrap_or(b"=?");
    // A chunk begins before its first line.
    let string = string(names, session, source, first);
    Some(NodePlace::Declared { string, line }.encode())
}

/// The line of an instruction; 0 without debug information.
fn line(pages: &mut Pages, table: u64, first: u32, lines: u32, index: u64, len: u64) -> u32 {
    let width = match lines {
        0..256 => 1,
        256..65536 => 2,
        _ => 4,
    };
    if table == 0 {
        return 0;
    }
    // The instruction before the first is the function's head.
    let Some(index) = index.checked_sub(1) else { return first };
    if index + 1 == len {
        return first + lines;
    }
    // SAFETY: the table belongs to a function that runs; it does not change.
    let bytes = unsafe { pages.bytes(table + index * width, width) };
    let difference = bytes.unwrap_or(&[]).iter().rev().fold(0, |sum: u32, byte| sum << 8 | u32::from(*byte));
    first.saturating_add(difference)
}

fn text(pages: &mut Pages, string: u64) -> Option<&'static [u8]> {
    if !string.is_multiple_of(8) || !pages.holds_all(string, TEXT) {
        return None;
    }
    // SAFETY: checked.
    let (kind, len) = unsafe { (byte(string + TYPE), half_word(string + LENGTH)) };
    // SAFETY: the source of a function that runs; strings do not change.
    (kind == STRING).then(|| unsafe { pages.bytes(string + TEXT, u64::from(len).min(SOURCE_BYTES)) })?
}
