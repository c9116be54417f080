//! LeakSanitizer's suppression files, which the probe reads at exit and reports read afterwards:
//! `leak:PATTERN`, one a line, `#` before a comment.

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// Empty, or a comment.
    Nothing,
    /// The pattern of a known leak.
    Leak(&'a [u8]),
    /// Anything else.
    Other,
}

/// The contents of a line.
#[must_use]
pub fn line(text: &[u8]) -> Line<'_> {
    match text.trim_ascii() {
        b"" | [b'#', ..] => Line::Nothing,
        text => match text.strip_prefix(b"leak:") {
            Some(pattern) if !pattern.is_empty() => Line::Leak(pattern),
            _ => Line::Other,
        },
    }
}

/// Whether a pattern is found in a text: `*` matches any text, `^` and `$` match the ends of the
/// text.
#[must_use]
pub fn is_found(pattern: &[u8], text: &[u8]) -> bool {
    let (pattern, mut anchored) = match pattern.strip_prefix(b"^") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let (pattern, to_end) = match pattern.strip_suffix(b"$") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let mut rest = text;
    let mut pieces = pattern.split(|byte| *byte == b'*').peekable();
    while let Some(piece) = pieces.next() {
        let at = match (anchored, to_end && pieces.peek().is_none()) {
            (true, true) => (rest == piece).then_some(0),
            (true, false) => rest.starts_with(piece).then_some(0),
            (false, true) => rest.ends_with(piece).then(|| rest.len() - piece.len()),
            (false, false) => find(rest, piece),
        };
        let Some(at) = at else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or(&[]);
        anchored = false;
    }
    true
}

fn find(text: &[u8], piece: &[u8]) -> Option<usize> {
    if piece.is_empty() { Some(0) } else { text.windows(piece.len()).position(|window| window == piece) }
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::*;

    #[test]
    fn only_leak_lines_are_patterns() {
        let lines: [(&[u8], Line<'_>); 6] = [
            (b"", Line::Nothing),
            (b"  # leak:not", Line::Nothing),
            (b"leak:one", Line::Leak(b"one")),
            (b"  leak:two  ", Line::Leak(b"two")),
            (b"race:three", Line::Other),
            (b"leak:", Line::Other),
        ];
        for (text, expected) in lines {
            assert_eq!(line(text), expected);
        }
    }

    #[test]
    fn patterns_are_leak_sanitizers() {
        let cases: [(&[u8], &[u8], bool); 12] = [
            (b"cache", b"my_cache_new", true),
            (b"^cache", b"my_cache_new", false),
            (b"^my", b"my_cache_new", true),
            (b"new$", b"my_cache_new", true),
            (b"cache$", b"my_cache_new", false),
            (b"^my*new$", b"my_cache_new", true),
            (b"my*other", b"my_cache_new", false),
            (b"c*h*n", b"my_cache_new", true),
            (b"^my_cache_new$", b"my_cache_new", true),
            (b"^my$", b"my_cache_new", false),
            (b"*", b"", true),
            (b"libz.so", b"/usr/lib/libz.so.1", true),
        ];
        for (pattern, text, found) in cases {
            assert_eq!(is_found(pattern, text), found, "{}", String::from_utf8_lossy(pattern));
        }
    }
}
