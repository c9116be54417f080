//! Mangled names as far as they can be read without a demangler, for patterns to be looked for in.

use crate::fixed_text::FixedText;

/// Longest plain name.
const NAME_BYTES: usize = 512;

/// The identifiers of a mangled C++ or Rust name, up to the first template argument:
/// `_ZN4pool4growEm` is `pool::grow`. `None` for names that are not mangled.
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
