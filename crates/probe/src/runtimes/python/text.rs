//! Strings of the interpreter, copied as UTF-8.
#![allow(unsafe_code)]

use super::layout::StringLayout;
use crate::runtimes::memory::{Pages, half_word, word};

/// Longest string that is read, in characters.
const LONGEST: u64 = 4096;

/// Which part of a string stays when there is no room for all of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Start,
    End,
}

/// Copies the string at `object`; `None` when there is none.
pub(super) fn copy<'a>(
    pages: &mut Pages,
    layout: &StringLayout,
    object: u64,
    keep: Keep,
    into: &'a mut [u8],
) -> Option<&'a [u8]> {
    if !object.is_multiple_of(8) || !pages.holds_all(object, u64::from(layout.compact)) {
        return None;
    }
    // SAFETY: the head of the object was checked.
    let length = unsafe { word(object + u64::from(layout.length)) };
    // SAFETY: as above.
    let state = unsafe { half_word(object + u64::from(layout.state)) };
    let (width, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
    if !is_compact || length > LONGEST || !matches!(width, 1 | 2 | 4) {
        return None;
    }
    let data = object + u64::from(if is_ascii { layout.ascii } else { layout.compact });
    // SAFETY: the name of a code object that is running; strings do not change.
    let units = unsafe { pages.bytes(data, length * u64::from(width)) }?;
    let characters = units.chunks_exact(width as usize).map(|unit| {
        let value = unit.iter().rev().fold(0, |value: u32, byte| value << 8 | u32::from(*byte));
        char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER)
    });
    let bytes: usize = characters.clone().map(char::len_utf8).sum();
    let mut surplus = match keep {
        Keep::Start => 0,
        Keep::End => bytes.saturating_sub(into.len()),
    };
    let mut len = 0;
    for character in characters {
        if surplus > 0 {
            surplus = surplus.saturating_sub(character.len_utf8());
            continue;
        }
        let mut utf8 = [0; 4];
        let encoded = character.encode_utf8(&mut utf8).as_bytes();
        let Some(place) = into.get_mut(len..len + encoded.len()) else { break };
        place.copy_from_slice(encoded);
        len += encoded.len();
    }
    into.get(..len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: StringLayout =
        StringLayout { length: 16, state: 32, ascii: 40, compact: 56, bytes_size: 16, bytes_data: 32 };

    /// An object of the interpreter: aligned, with room for the data.
    #[repr(C, align(8))]
    struct Object([u8; 128]);

    fn object(state: u32, length: u64, at: usize, data: &[u8]) -> Box<Object> {
        let mut object = Box::new(Object([0; 128]));
        object.0[16..24].copy_from_slice(&length.to_le_bytes());
        object.0[32..36].copy_from_slice(&state.to_le_bytes());
        object.0[at..at + data.len()].copy_from_slice(data);
        object
    }

    fn read(object: &Object, keep: Keep, room: usize) -> Option<String> {
        let memory = crate::sys::map_private(size_of::<Pages>()).unwrap();
        // SAFETY: zeroed memory of that size is valid, and leaked.
        let pages: &mut Pages = unsafe { &mut *memory.cast() };
        let mut into = vec![0; room];
        let address = (&raw const *object).expose_provenance() as u64;
        let bytes = copy(pages, &LAYOUT, address, keep, &mut into)?;
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn strings_of_all_widths() {
        let ascii = object(1 << 2 | 1 << 5 | 1 << 6, 5, 40, b"hello");
        assert_eq!(read(&ascii, Keep::Start, 99).as_deref(), Some("hello"));
        let latin = object(1 << 2 | 1 << 5, 2, 56, &[0xe9, b'a']);
        assert_eq!(read(&latin, Keep::Start, 99).as_deref(), Some("éa"));
        let wide = object(2 << 2 | 1 << 5, 2, 56, &[0xa9, 0x03, b'x', 0]);
        assert_eq!(read(&wide, Keep::Start, 99).as_deref(), Some("Ωx"));
        let emoji = object(4 << 2 | 1 << 5, 1, 56, &0x1f600_u32.to_le_bytes());
        assert_eq!(read(&emoji, Keep::End, 99).as_deref(), Some("😀"));
    }

    #[test]
    fn long_strings_are_cut_at_characters() {
        let wide = object(2 << 2 | 1 << 5, 3, 56, &[0xa9, 0x03, b'x', 0, b'y', 0]);
        assert_eq!(read(&wide, Keep::Start, 2).as_deref(), Some("Ω"));
        assert_eq!(read(&wide, Keep::End, 3).as_deref(), Some("xy"));
        assert_eq!(read(&wide, Keep::End, 2).as_deref(), Some("xy"));
    }

    #[test]
    fn nonsense_is_no_string() {
        assert_eq!(read(&object(0, 5, 40, b"hello"), Keep::Start, 99), None);
        assert_eq!(read(&object(1 << 2 | 1 << 5, u64::MAX, 40, b""), Keep::Start, 99), None);
        assert_eq!(read(&object(3 << 2 | 1 << 5, 1, 40, b""), Keep::Start, 99), None);
    }
}
