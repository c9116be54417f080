//! The fields of a heaptrack line.

use crate::read::lines::{parse_hex, to_text};

/// The rest of a line, behind its letter.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    sized_strings: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(rest: &'a [u8], sized_strings: bool) -> Self {
        Self { rest, sized_strings }
    }

    /// The next number.
    pub(super) fn hex(&mut self) -> Option<u64> {
        parse_hex(self.word()?)
    }

    /// The next number, as an index.
    pub(super) fn index(&mut self) -> Option<usize> {
        usize::try_from(self.hex()?).ok()
    }

    /// The next string: since version 3 with its length before it, earlier up to a blank.
    pub(super) fn text(&mut self) -> Option<String> {
        if !self.sized_strings {
            return self.word().map(to_text);
        }
        let length = self.index()?;
        let text = self.rest.get(..length)?;
        self.rest = self.rest.get(length + 1..).unwrap_or(b"");
        Some(to_text(text))
    }

    /// The string that fills the line: before version 3 it may hold blanks.
    pub(super) fn last_text(&mut self) -> Option<String> {
        match self.sized_strings {
            true => self.text(),
            false => Some(to_text(self.rest)),
        }
    }

    /// The unread rest.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn word(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let blank = self.rest.iter().position(|byte| *byte == b' ');
        let word = &self.rest[..blank.unwrap_or(self.rest.len())];
        self.rest = blank.map_or(&b""[..], |at| &self.rest[at + 1..]);
        Some(word)
    }
}
