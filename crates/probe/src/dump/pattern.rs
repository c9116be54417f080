//! Patterns of LeakSanitizer's suppression files, and names they are looked for in.

use crate::fixed_text::FixedText;

/// Whether a pattern is found in a text: `*` stands for anything, `^` and `$` for the ends of the text.
pub(super) fn is_found(pattern: &[u8], text: &[u8]) -> bool {
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

/// Longest plain name.
const NAME_BYTES: usize = 512;

/// The identifiers of a mangled C++ or Rust name, up to the first template argument: `_ZN4pool4growEm` is `pool::grow`.
/// `None` for names that are not mangled.
pub(super) fn plain(symbol: &[u8]) -> Option<FixedText<NAME_BYTES>> {
    let mangled = symbol.strip_prefix(b"_Z")?;
    let mut rest = mangled.strip_prefix(b"N").unwrap_or(mangled);
    while let [b'K' | b'V' | b'r', more @ ..] = rest {
        rest = more;
    }
    let mut name = FixedText::new();
    loop {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, more) = rest.split_at(digits);
        let Some(len) = core::str::from_utf8(number).ok().and_then(|number| number.parse::<usize>().ok())
        else {
            break;
        };
        let Some(identifier) = more.get(..len) else { break };
        // Rust's hash.
        if len == 17 && identifier.starts_with(b"h") {
            break;
        }
        if !name.as_bytes().is_empty() {
            name.push(b"::");
        }
        name.push(identifier);
        rest = more.get(len..).unwrap_or(&[]);
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn mangled_names_are_made_plain() {
        let cases: [(&[u8], Option<&str>); 6] = [
            (b"_ZN4pool4growEm", Some("pool::grow")),
            (b"_ZNK4pool4sizeEv", Some("pool::size")),
            (b"_Z4leakv", Some("leak")),
            (b"_ZN4core3fmt5write17h0123456789abcdefE", Some("core::fmt::write")),
            (b"_ZN4poolIiE4growEm", Some("pool")),
            (b"main", None),
        ];
        for (symbol, expected) in cases {
            let name = plain(symbol);
            let name = name.as_ref().map(|name| core::str::from_utf8(name.as_bytes()).expect("ASCII"));
            assert_eq!(name, expected);
        }
    }
}
