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

/// The text of a string; `None` for another object.
pub(super) fn read(ruby: &Interface, pages: &mut Pages, string: Value) -> Option<&'static [u8]> {
    if string & IMMEDIATE != 0 || !pages.holds_all(string, LENGTH + 8) {
        return None;
    }
    // SAFETY: checked.
    let (flags, length) = unsafe { (word(string), word(string + LENGTH)) };
    if flags & TYPE != STRING {
        return None;
    }
    let start = ruby.text(string);
    let len = if start == string + LENGTH { flags >> SHORT_LENGTH_SHIFT & 0x1f } else { length };
    // SAFETY: the name of a method or file of a frame that runs; such strings are frozen.
    unsafe { pages.bytes(start, len.min(MOST)) }
}
