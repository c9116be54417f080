//! Text of a profile as a terminal may show it. Names of functions, threads, marks and files are
//! data of the profiled program: control characters in them could forge rows or change the
//! terminal.

use std::borrow::Cow;

/// The text on one line, with control characters, line ends and controls of the writing direction
/// escaped as in Rust (`\n`, `\u{1b}`). Tabs stay.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_unsafe(character) {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// Control characters but the tab, line and paragraph separators, and controls of the writing
/// direction, which change the order of other characters.
fn is_unsafe(character: char) -> bool {
    match character {
        '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(printable("a\x1b]0;title\x07b\nc\r\u{9b}2J"), "a\\u{1b}]0;title\\u{7}b\\nc\\r\\u{9b}2J");
        assert_eq!(printable("abc\u{202e}fed\u{2028}\x7f"), "abc\\u{202e}fed\\u{2028}\\u{7f}");
        assert!(matches!(printable("größe\tstd::map<int, π>"), Cow::Borrowed(_)));
    }
}
