//! A text input as numbered lines, and the few tokens the text formats share.

/// A line without its end (`\n` or `\r\n`).
#[derive(Debug, Clone, Copy)]
pub(super) struct TextLine<'a> {
    /// Counted from 1.
    pub(super) number: u64,
    /// The bytes; text formats are ASCII but for paths and names.
    pub(super) text: &'a [u8],
}

/// The lines of a slice, in order.
#[derive(Debug, Clone)]
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: u64,
}

impl<'a> Lines<'a> {
    /// The first line is number `first`.
    pub(super) fn from_number(bytes: &'a [u8], first: u64) -> Self {
        Self { rest: bytes, number: first.saturating_sub(1) }
    }

    /// What has not been handed out yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Number of the last line handed out.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = TextLine<'a>;

    fn next(&mut self) -> Option<TextLine<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = match self.rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &self.rest[self.rest.len()..]),
        };
        self.rest = rest;
        self.number += 1;
        Some(TextLine { number: self.number, text: line.strip_suffix(b"\r").unwrap_or(line) })
    }
}

/// Takes a decimal number off the front; `None` when there is none or it exceeds 64 bits.
pub(super) fn take_decimal(text: &mut &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    *text = rest;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Takes `token` off the front if it is there.
pub(super) fn take(text: &mut &[u8], token: &[u8]) -> Option<()> {
    *text = text.strip_prefix(token)?;
    Some(())
}

/// Takes white space off the front.
pub(super) fn skip_blanks(text: &mut &[u8]) {
    *text = text.trim_ascii_start();
}

/// A hexadecimal number, with or without `0x`.
pub(super) fn parse_hex(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() || digits[0] == b'+' {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The fields between runs of white space.
pub(super) fn fields(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

/// Names and paths as text; bytes that are no UTF-8 are replaced.
pub(super) fn to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_lose_either_line_end() {
        let lines: Vec<_> = Lines::from_number(b"a\r\n\nb", 1).map(|line| (line.number, line.text)).collect();
        assert_eq!(lines, [(1, &b"a"[..]), (2, b""), (3, b"b")]);
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        assert_eq!(take_decimal(&mut &b"18446744073709551616"[..]), None);
        assert_eq!(parse_hex(b"0x10000000000000000"), None);
        assert_eq!(parse_hex(b"+1"), None);
        assert_eq!(parse_hex(b"0xffffffffffffffff"), Some(u64::MAX));
    }
}
