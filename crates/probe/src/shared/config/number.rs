//! Whole numbers as C writes them: decimal, `0x` hexadecimal, `0` octal, perhaps a sign.

/// A number of bytes: perhaps with K, M or G at its end.
pub(super) fn size(text: &[u8]) -> Option<u64> {
    let (digits, shift) = match text.split_last()? {
        (b'K' | b'k', digits) => (digits, 10),
        (b'M' | b'm', digits) => (digits, 20),
        (b'G' | b'g', digits) => (digits, 30),
        _ => (text, 0),
    };
    u64::try_from(parse(digits)?.checked_mul(1 << shift)?).ok()
}

/// The number a text is, all of it.
pub(crate) fn parse(text: &[u8]) -> Option<i128> {
    let (negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    let (digits, base) = match digits {
        [b'0', b'x' | b'X', hex @ ..] => (hex, 16),
        [b'0', octal @ ..] if !octal.is_empty() => (octal, 8),
        _ => (digits, 10),
    };
    let first = *digits.first()?;
    let number = u64::from_str_radix(core::str::from_utf8(digits).ok()?, base).ok()?;
    let number = (first != b'+').then_some(i128::from(number))?;
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::{parse, size};

    #[test]
    fn sizes_may_have_a_unit() {
        let sizes = [&b"512K"[..], b"2m", b"3G", b"0x10K", b"77", b"-1", b"K", b"99999999999999G"].map(size);
        let expected = [512 << 10, 2 << 20, 3 << 30, 16 << 10, 77].map(Some);
        assert_eq!((&sizes[..5], &sizes[5..]), (&expected[..], &[None; 3][..]));
    }

    #[test]
    fn reads_what_strtoumax_reads() {
        let cases: [(&[u8], Option<i128>); 10] = [
            (b"19", Some(19)),
            (b"0x13", Some(19)),
            (b"023", Some(19)),
            (b"0", Some(0)),
            (b"-1", Some(-1)),
            (b"18446744073709551615", Some(18_446_744_073_709_551_615)),
            (b"18446744073709551616", None),
            (b"19k", None),
            (b"", None),
            (b"0x", None),
        ];
        for (text, number) in cases {
            assert_eq!(parse(text), number, "{}", String::from_utf8_lossy(text));
        }
    }
}
