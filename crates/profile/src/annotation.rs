//! The lines heapwise adds behind the mappings of a text profile: data that jeprof's format cannot
//! hold.
//!
//! They look like comments, are where jeprof and google-pprof search for mappings only, and match
//! none of their patterns. docs/FORMATS.md holds the grammar; the reader is `read/annotations.rs`,
//! the writer `export/annotations.rs` of the render crate.

/// Prefix of every annotation.
pub const PREFIX: &str = "# heapwise ";

/// Version of the grammar, stored in the first annotation. Version 1 had other names for some
/// columns, one block size per sample, and fewer counters of losses; version 2 had no `end`.
pub const VERSION: u32 = 3;

/// First version whose last annotation is `end`: a file without it was cut.
pub const VERSION_WITH_END: u32 = 3;

/// Frames that have names but no address are written in stacks as addresses from here on: above
/// every address of user space, below 2⁶³, from which on jeprof skips addresses.
pub const NAMED_FRAMES: u64 = 0x7000_0000_0000_0000;

/// Distance of two such addresses; jeprof looks callers up one byte lower.
pub const NAMED_FRAME_STRIDE: u64 = 16;

/// A text as one field of a line: no tabs, no line ends.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The text of an escaped field; an unknown escape is kept as it is.
#[must_use]
pub(crate) fn unescape(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut characters = field.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('t') => text.push('\t'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some(other) => text.push(other),
            None => text.push('\\'),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_a_line() {
        for text in ["", "a\tb\nc\r\\d\\n", "operator new(unsigned long)", "größe"] {
            let escaped = escape(text);
            assert!(!escaped.contains(['\t', '\n', '\r']));
            assert_eq!(unescape(&escaped), text);
        }
    }
}
