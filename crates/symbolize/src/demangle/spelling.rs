//! binutils' spelling of C++ names. Where the demangling library has another spelling, that of
//! `nm -C`, `addr2line -C` and therefore jeprof's reports is the convention.

/// How literals of these types are written: with a suffix instead of a cast.
const LITERALS: [(&str, &str); 6] = [
    ("(int)", ""),
    ("(unsigned int)", "u"),
    ("(long)", "l"),
    ("(unsigned long)", "ul"),
    ("(long long)", "ll"),
    ("(unsigned long long)", "ull"),
];

/// Classes whose constructors and destructors are named after the template they abbreviate.
const ABBREVIATIONS: [(&str, &str, &str); 2] = [
    ("string", "basic_string", "<char, std::char_traits<char>, std::allocator<char> >"),
    ("ostream", "basic_ostream", "<char, std::char_traits<char> >"),
];

/// Respells a demangled name.
pub(super) fn as_in_binutils(mut name: String) -> String {
    if name.contains("std::basic_i") {
        name = abbreviate_streams(&name);
    }
    if name.starts_with("std::")
        && let Some(expanded) = expand_constructor(&name)
    {
        return expanded;
    }
    if name.contains("(int)") || name.contains("(unsigned ") || name.contains("(long") || name.contains(", >")
    {
        return respell_arguments(&name);
    }
    name
}

/// The library abbreviates `std::ostream`, but not the streams that read. Constructors and
/// destructors stay as they are.
fn abbreviate_streams(name: &str) -> String {
    ["istream", "iostream"].iter().fold(name.to_owned(), |name, stream| {
        let full = format!("std::basic_{stream}<char, std::char_traits<char> >");
        let (constructor, destructor) = (format!("::basic_{stream}"), format!("::~basic_{stream}"));
        let short = format!("std::{stream}");
        name.replace(&full, &short)
            .replace(&format!("{short}{constructor}"), &format!("{full}{constructor}"))
            .replace(&format!("{short}{destructor}"), &format!("{full}{destructor}"))
    })
}

/// Splits the mangled name of a thunk (code that adjusts `this` and jumps on) into its kind and the
/// encoding of its target, which is not itself a thunk.
pub(super) fn thunk(name: &str) -> Option<(&'static str, &str)> {
    let (kind, target) = if let Some(rest) = name.strip_prefix("_ZTh") {
        ("non-virtual thunk", after_number(rest)?)
    } else {
        ("virtual thunk", after_number(after_number(name.strip_prefix("_ZTv")?)?)?)
    };
    (!target.starts_with('T')).then_some((kind, target))
}

/// What follows a mangled number: `n` if negative, digits, `_`.
fn after_number(text: &str) -> Option<&str> {
    let digits = text.strip_prefix('n').unwrap_or(text);
    let rest = digits.trim_start_matches(|digit: char| digit.is_ascii_digit());
    rest.strip_prefix('_').filter(|_| rest.len() < digits.len())
}

/// `std::string::string(…)` becomes `std::basic_string<…>::basic_string(…)`.
fn expand_constructor(name: &str) -> Option<String> {
    ABBREVIATIONS.iter().find_map(|(short, full, arguments)| {
        let member = name.strip_prefix("std::")?.strip_prefix(short)?.strip_prefix("::")?;
        let tilde = if member.starts_with('~') { "~" } else { "" };
        let rest = member.strip_prefix(tilde)?.strip_prefix(short)?;
        let is_name = rest.starts_with(['(', '<', '[']);
        is_name.then(|| format!("std::{full}{arguments}::{tilde}{full}{rest}"))
    })
}

/// Rewrites literals (`(unsigned int)4` becomes `4u`) and drops the comma before an empty pack.
fn respell_arguments(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(['(', ',']) {
        let (before, here) = rest.split_at(at);
        out.push_str(before);
        rest = if let Some((value, suffix, after)) = literal(here) {
            out.push_str(value);
            out.push_str(suffix);
            after
        } else if let Some(after) = here.strip_prefix(", >") {
            out.push_str(if out.ends_with('>') { " >" } else { ">" });
            if after.starts_with('>') {
                out.push(' ');
            }
            after
        } else {
            out.push_str(&here[..1]);
            &here[1..]
        };
    }
    out + rest
}

/// Splits `(unsigned int)4…` into value, suffix and what follows.
fn literal(text: &str) -> Option<(&str, &str, &str)> {
    LITERALS.iter().find_map(|(cast, suffix)| {
        let value = text.strip_prefix(cast)?;
        let digits = value.strip_prefix('-').unwrap_or(value);
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        let size = value.len() - digits.len() + count;
        (count > 0).then(|| (&value[..size], *suffix, &value[size..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are `c++filt --no-verbose`'s.
    #[test]
    fn literals_packs_and_constructors_are_spelled_as_binutils_do() {
        for (ours, theirs) in [
            ("f<(unsigned int)4, (int)-3>()", "f<4u, -3>()"),
            ("a<b, (unsigned long)8>::c(long)", "a<b, 8ul>::c(long)"),
            ("f(int)", "f(int)"),
            ("f((ns::E)3)", "f((ns::E)3)"),
            ("M<A, >::run(M<A, >&)", "M<A>::run(M<A>&)"),
            ("P<M<A, >>::f()", "P<M<A> >::f()"),
            ("P<M<A>, >::f()", "P<M<A> >::f()"),
            (
                "std::string::~string()",
                "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::~basic_string()",
            ),
            ("std::string::strange()", "std::string::strange()"),
            ("f(std::basic_istream<char, std::char_traits<char> >&)", "f(std::istream&)"),
            (
                "std::basic_istream<char, std::char_traits<char> >::~basic_istream()",
                "std::basic_istream<char, std::char_traits<char> >::~basic_istream()",
            ),
        ] {
            assert_eq!(as_in_binutils(ours.to_owned()), theirs);
        }
    }
}
