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

    /// The lines that have not been returned yet.
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
        let (line, rest) = match memchr::memchr(b'\n', self.rest) {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &self.rest[self.rest.len()..]),
        };
        self.rest = rest;
        self.number += 1;
        Some(TextLine { number: self.number, text: line.strip_suffix(b"\r").unwrap_or(line) })
    }
}

/// The part of a text before its last line, when that line has no end.
pub(super) fn without_unended_line(bytes: &[u8]) -> Option<&[u8]> {
    let start = memchr::memrchr(b'\n', bytes).map_or(0, |newline| newline + 1);
    (start < bytes.len()).then(|| &bytes[..start])
}

/// Takes a decimal number off the front; `None` when there is none or it exceeds 64 bits.
pub(super) fn take_decimal(text: &mut &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at_checked(digits).filter(|_| digits > 0)?;
    *text = rest;
    number.iter().try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
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
pub(super) fn parse_hex(mut text: &[u8]) -> Option<u64> {
    take_hex(&mut text).filter(|_| text.is_empty())
}

/// Takes a hexadecimal number, with or without `0x`, off the front; `None` when there is none or
/// it exceeds 64 bits. Eight digits at a time: most of a text profile is addresses.
pub(super) fn take_hex(text: &mut &[u8]) -> Option<u64> {
    let mut rest = text.strip_prefix(b"0x").unwrap_or(text);
    let mut value = 0_u64;
    let mut is_number = false;
    loop {
        let eight = rest.first_chunk::<8>().copied().unwrap_or_else(|| padded(rest));
        let (part, digits) = hex_digits(u64::from_le_bytes(eight));
        is_number |= digits > 0;
        let bits = 4 * digits;
        if value.leading_zeros() < bits && value != 0 {
            return None;
        }
        value = value << bits | part;
        rest = &rest[digits as usize..];
        if digits < 8 {
            *text = rest;
            return is_number.then_some(value);
        }
    }
}

/// Fewer than eight bytes, padded with zero bytes, which are not digits.
fn padded(bytes: &[u8]) -> [u8; 8] {
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    eight
}

/// The number that the digits at the front of eight characters (the first in the lowest byte) make,
/// and how many they are: SIMD within a register, every byte a lane.
fn hex_digits(characters: u64) -> (u64, u32) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let low = characters & !HIGH;
    // The high bit of each lane of a sum is set when the lane is at least 0x80 minus the constant.
    let at_least = |lanes: u64, least: u8| lanes + u64::from(0x80 - least) * ONES;
    let decimal = at_least(low, b'0') & !at_least(low, b'9' + 1);
    let lower = low | (0x20 * ONES);
    let letter = at_least(lower, b'a') & !at_least(lower, b'f' + 1) & HIGH;
    let is_digit = (decimal | letter) & !characters & HIGH;
    let digits = (is_digit ^ HIGH).trailing_zeros() / 8;
    let nibbles = (low & (0x0f * ONES)) + (letter >> 7) * 9;
    // The first digit is the highest; what follows the digits is shifted out.
    let nibbles = nibbles.swap_bytes().checked_shr(64 - 8 * digits).unwrap_or(0);
    let pairs = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    ((fours | fours >> 16) & 0xffff_ffff, digits)
}

/// The fields between runs of white space.
pub(super) fn fields(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

/// Names and paths as text; bytes that are not UTF-8 are replaced.
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
        assert_eq!(take_decimal(&mut &b"18446744073709551615"[..]), Some(u64::MAX));
        assert_eq!(take_decimal(&mut &b"x"[..]), None);
        assert_eq!(parse_hex(b"0x10000000000000000"), None);
        assert_eq!(parse_hex(b"+1"), None);
        assert_eq!(parse_hex(b"0xffffffffffffffff"), Some(u64::MAX));
        assert_eq!(parse_hex(b"0x00000000000000000000ffffffffffffffff"), Some(u64::MAX));
    }

    /// Every byte at every place of a number, against the standard library.
    #[test]
    fn hexadecimal_numbers_are_those_of_the_standard_library() {
        for length in 0..20 {
            for at in 0..=length {
                for byte in (0..=u8::MAX).step_by(if cfg!(miri) { 37 } else { 1 }) {
                    let mut text = b"1aF09cD4b7e2835660Ab"[..length].to_vec();
                    text.insert(at, byte);
                    let digits = text.strip_prefix(b"0x").unwrap_or(&text);
                    let expected = std::str::from_utf8(digits).ok().filter(|_| digits.first() != Some(&b'+'));
                    let expected = expected.and_then(|digits| u64::from_str_radix(digits, 16).ok());
                    assert_eq!(parse_hex(&text), expected, "{}", text.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn a_number_ends_where_its_digits_end() {
        let mut text = &b"0x7f683aaa2630 0x1"[..];
        assert_eq!(take_hex(&mut text), Some(0x7f68_3aaa_2630));
        assert_eq!(text, b" 0x1");
    }
}
