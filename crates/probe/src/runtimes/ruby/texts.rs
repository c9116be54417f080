//! Texts of Ruby's strings.
#![allow(unsafe_code)]

use super::find::{Interface, Value};
use crate::runtimes::memory::{Pages, word};

/// Bits of a reference that is a number or a constant, such as `nil`.
const IMMEDIATE: u64 = 7;
/// In the first word of an object: its type.
const TYPE: u64 = 0x1f;
const STRING: u64 = 5;
/// Where the length is; the text of short strings follows it, or is in its place.
const LENGTH: u64 = 16;
/// In the first word of a short string whose text is in the place of the length: its length.
const SHORT_LENGTH_SHIFT: u32 = 14;
/// Longest text that is read.
const MOST: u64 = 400;

/// Whether an object is a string.
pub(super) fn is_string(pages: &mut Pages, object: Value) -> bool {
    // SAFETY: the word is read after the check.
    let is_string = || unsafe { word(object) } & TYPE == STRING;
    object & IMMEDIATE == 0 && pages.holds_all(object, LENGTH + 8) && is_string()
}

/// The text of a string; `None` for another object.
pub(super) fn read(ruby: &Interface, pages: &mut Pages, string: Value) -> Option<&'static [u8]> {
    if !is_string(pages, string) {
        return None;
    }
    // SAFETY: checked.
    let (flags, length) = unsafe { (word(string), word(string + LENGTH)) };
    let start = ruby.text(string);
    let len = if start == string + LENGTH { flags >> SHORT_LENGTH_SHIFT & 0x1f } else { length };
    // SAFETY: the name of a method or file of a frame that runs; such strings are frozen.
    unsafe { pages.bytes(start, len.min(MOST)) }
}
