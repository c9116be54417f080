//! From a frame of the interpreter to the function and line that it runs.
#![allow(unsafe_code)]

use heapwise_format::segment::NodePlace;

use super::codes::CODES;
use super::layout::Layout;
use super::text::{self, Keep};
use super::{Interpreter, lines};
use crate::declared_frames;
use crate::runtimes::memory::{Pages, half_word, word};
use crate::session::Session;

/// Cached positions and code objects, as powers of two.
const POSITION_BITS: u32 = 13;
const CODE_BITS: u32 = 11;
/// Longest names of files and functions.
const FILE_BYTES: usize = 400;
const NAME_BYTES: usize = 200;
/// Bytes of a code object that are read, whatever the version.
const CODE_BYTES: u64 = 216;

/// Where a frame is in its code: an instruction's address, or a code object and an index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// 0 where the instruction is an address.
    pub(super) code: u64,
    pub(super) instruction: u64,
}

impl Position {
    /// The position of a frame.
    ///
    /// # Safety
    /// The frame can be read.
    #[inline(always)]
    pub(super) unsafe fn of(layout: &Layout, frame: u64) -> Position {
        let instruction = frame + u64::from(layout.instruction);
        if layout.has_instruction_address() {
            // SAFETY: the caller's promise.
            return Position { code: 0, instruction: unsafe { word(instruction) } };
        }
        // SAFETY: the caller's promise.
        unsafe {
            Position {
                code: word(frame + u64::from(layout.code)),
                instruction: u64::from(half_word(instruction)),
            }
        }
    }

    fn hash(self) -> u64 {
        (self.instruction ^ self.code.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

#[derive(Clone, Copy)]
struct Located {
    code: u64,
    instruction: u64,
    /// An encoded [`NodePlace`]; 0: none.
    place: u64,
    /// Of the code object, see [`super::codes::Codes::generation`].
    generation: u32,
}

#[derive(Clone, Copy)]
struct Named {
    code: u64,
    /// Of function and file, in the segment, plus 1; 0: none.
    string: u32,
    /// As in [`Located`].
    generation: u32,
}

/// Cached answers of a thread. Zeroed memory is valid: none.
pub(super) struct Locations {
    positions: [Located; 1 << POSITION_BITS],
    codes: [Named; 1 << CODE_BITS],
    /// A code object was named whose end will not be noticed.
    pub(super) has_unnoticed: bool,
}

impl Locations {
    /// The function and line of a frame, an encoded [`NodePlace`]; `None` when it cannot be read.
    ///
    /// # Safety
    /// The frame can be read.
    #[inline(always)]
    pub(super) unsafe fn place(
        &mut self,
        session: &Session,
        interpreter: &Interpreter,
        pages: &mut Pages,
        frame: u64,
        position: Position,
    ) -> Option<u64> {
        let layout = &interpreter.layout;
        // SAFETY: the caller's promise. Lowest bits of it are tags (3.14).
        let code = unsafe { word(frame + u64::from(layout.code)) } & !7;
        let generation = CODES.generation(code);
        let slot = (position.hash() >> (64 - POSITION_BITS)) as usize;
        if let Some(known) = self.positions.get(slot)
            && (known.code, known.instruction) == (code, position.instruction)
            && known.generation == generation
            && known.place != 0
        {
            return Some(known.place);
        }
        let (string, is_kept) = self.string(session, interpreter, pages, code)?;
        let line = line(layout, pages, code, position)?;
        let place = NodePlace::Declared { string, line }.encode();
        if let Some(known) = self.positions.get_mut(slot).filter(|_| is_kept) {
            *known = Located { code, instruction: position.instruction, place, generation };
        }
        Some(place)
    }

    /// The names of a code object, in the segment, and whether its end will be noticed.
    fn string(
        &mut self,
        session: &Session,
        interpreter: &Interpreter,
        pages: &mut Pages,
        code: u64,
    ) -> Option<(u32, bool)> {
        let slot = ((code >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CODE_BITS)) as usize;
        let generation = CODES.generation(code);
        let is_it =
            |known: &&Named| (known.code, known.generation) == (code, generation) && known.string != 0;
        if let Some(known) = self.codes.get(slot).filter(is_it) {
            return Some((known.string - 1, true));
        }
        let layout = &interpreter.layout;
        if !code.is_multiple_of(8) || !pages.holds_all(code, CODE_BYTES) {
            return None;
        }
        // SAFETY: checked.
        let field = |offset: u32| unsafe { word(code + u64::from(offset)) };
        let (mut file, mut name) = ([0; FILE_BYTES], [0; NAME_BYTES]);
        let file = text::copy(pages, &layout.string, field(layout.file_name), Keep::End, &mut file)?;
        let name = text::copy(pages, &layout.string, field(layout.name), Keep::Start, &mut name)?;
        let string = declared_frames::intern_bytes(session, name, file);
        // The end of the object is noticed in a wrapped domain only.
        let is_kept = interpreter.is_hooked() && CODES.insert(code);
        self.has_unnoticed |= interpreter.is_hooked() && !is_kept;
        if let Some(known) = self.codes.get_mut(slot).filter(|_| is_kept) {
            *known = Named { code, string: string + 1, generation };
        }
        Some((string, is_kept))
    }
}

/// The line of a position; `None` when the table of lines cannot be read.
fn line(layout: &Layout, pages: &mut Pages, code: u64, position: Position) -> Option<u32> {
    if !code.is_multiple_of(8) || !pages.holds_all(code, CODE_BYTES) {
        return None;
    }
    // SAFETY: checked.
    let first = unsafe { half_word(code + u64::from(layout.first_line)) } as i32;
    // SAFETY: checked.
    let table = unsafe { word(code + u64::from(layout.line_table)) };
    let len = pages.word(table + u64::from(layout.string.bytes_size))?;
    // SAFETY: the table belongs to a code object that runs; it does not change.
    let bytes = unsafe { pages.bytes(table + u64::from(layout.string.bytes_data), len) }?;
    let offset = match layout.minor {
        ..=9 => i64::from(position.instruction as i32),
        10 => i64::from(position.instruction as i32) * 2,
        _ => position.instruction.wrapping_sub(code + u64::from(layout.instructions)) as i64,
    };
    Some(lines::line_of(layout.minor, bytes, first, offset))
}
