//! Shortening of demangled names.

/// A C++ or Rust name without parameters, template arguments, return type and compiler suffixes:
/// `void ns::Pool<int>::grow(unsigned long) const` becomes `ns::Pool::grow`,
/// `<alloc::vec::Vec<T> as Clone>::clone` becomes `alloc::vec::Vec::clone`.
#[must_use]
pub fn short(name: &str) -> String {
    // A label, or a placeholder for a missing function.
    if name.starts_with('[') && name.ends_with(']') {
        return name.to_owned();
    }
    let name = name.find(" [clone ").map_or(name, |at| &name[..at]);
    let (head, rest) = match qualified_self(name) {
        Some((self_type, rest)) => (short(self_type), rest),
        None => (String::new(), name),
    };
    let flat = strip_brackets(strip_rust_hash(rest));
    let tail = if head.is_empty() { strip_return_type(flat.trim_end()) } else { flat.trim_end() };
    if head.is_empty() && tail.is_empty() {
        return name.to_owned();
    }
    // `alloc::slice::<impl [T]>::to_vec` has nothing between its separators now.
    (head + tail).replace("::::", "::")
}

/// Splits Rust's `<Type as Trait>::rest` into `Type` and `::rest`.
fn qualified_self(name: &str) -> Option<(&str, &str)> {
    let inner = name.strip_prefix('<')?;
    let mut depth = 1;
    let mut last = ' ';
    for (at, c) in inner.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if last != '-' => depth -= 1,
            _ => {}
        }
        last = c;
        if depth == 0 {
            let self_type = inner[..at].split(" as ").next().unwrap_or_default();
            let rest = &inner[at + 1..];
            return rest.starts_with("::").then_some((self_type, rest));
        }
    }
    None
}

fn strip_rust_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((head, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => head,
        _ => name,
    }
}

/// Drops every balanced `<…>` and `(…)` except those that are part of the name itself
/// (`operator<`, `operator()`, `(anonymous namespace)`, Java's `.<init>`), and a trailing `const`.
fn strip_brackets(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let (mut depth, mut at) = (0_u32, 0);
    while let Some(c) = name[at..].chars().next() {
        let rest = &name[at..];
        let kept = if depth > 0 { 0 } else { literal_prefix(rest, &out) };
        if kept > 0 {
            out.push_str(&rest[..kept]);
            at += kept;
            continue;
        }
        match c {
            '<' | '(' => depth += 1,
            '>' if !name[..at].ends_with('-') => depth = depth.saturating_sub(1),
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
        at += c.len_utf8();
    }
    for qualifier in [" const", " volatile", " &", " &&"] {
        if let Some(stripped) = out.strip_suffix(qualifier) {
            out.truncate(stripped.len());
        }
    }
    out
}

/// Length of a piece that looks like brackets but belongs to the name.
fn literal_prefix(rest: &str, before: &str) -> usize {
    const ANONYMOUS: &str = "(anonymous namespace)";
    const JAVA_INITIALIZERS: [&str; 2] = ["<init>", "<clinit>"];
    const OPERATORS: [&str; 9] = ["()", "<<=", "<<", "<=>", "<=", "<", ">>=", "->*", "->"];
    if rest.starts_with(ANONYMOUS) {
        return ANONYMOUS.len();
    }
    let length = |known: &&str| rest.starts_with(*known).then_some(known.len());
    if before.ends_with('.') {
        return JAVA_INITIALIZERS.iter().find_map(length).unwrap_or(0);
    }
    if !before.ends_with("operator") {
        return 0;
    }
    let more = [">>", ">=", ">"];
    OPERATORS.iter().chain(&more).find_map(length).unwrap_or(0)
}

/// `void ns::f` becomes `ns::f`; `operator new` and `(anonymous namespace)` keep their spaces.
fn strip_return_type(name: &str) -> &str {
    let end = name.find("operator ").unwrap_or(name.len());
    let mut start = 0;
    for (at, _) in name[..end].match_indices(' ') {
        let in_anonymous = name[..at].ends_with("(anonymous");
        if !in_anonymous && !name[..at].ends_with("{lambda") {
            start = at + 1;
        }
    }
    &name[start..]
}

/// The name as `jeprof`'s `ShortFunctionName` gives it: parameters (with a following `const`) and
/// template arguments removed innermost first, then everything up to the last blank before `w::`.
/// Rust's `<A as T>::f` stays `A::f`; jeprof leaves `::f` of it.
#[must_use]
pub fn jeprof_short(name: &str) -> String {
    let mut name = match qualified_self(name) {
        Some((self_type, rest)) => short(self_type) + rest,
        None => name.to_owned(),
    };
    while let Some(range) = innermost(&name, '(', ')') {
        let after = &name[range.end..];
        let constant = after.trim_start().strip_prefix("const").map_or(0, |rest| after.len() - rest.len());
        name.replace_range(range.start..range.end + constant, "");
    }
    while let Some(range) = innermost(&name, '<', '>') {
        name.replace_range(range, "");
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let cut = name
        .char_indices()
        .filter(|&(_, c)| c.is_whitespace())
        .filter(|&(at, c)| {
            let after = &name[at + c.len_utf8()..];
            let word = after.find(|c| !is_word(c)).unwrap_or(after.len());
            word > 0 && after[word..].starts_with("::")
        })
        .map(|(at, c)| at + c.len_utf8())
        .next_back();
    cut.map_or(name.clone(), |at| name[at..].to_owned())
}

/// The first bracket pair that contains no further bracket of its kind.
fn innermost(name: &str, open: char, close: char) -> Option<std::ops::Range<usize>> {
    let mut start = None;
    for (at, c) in name.char_indices() {
        if c == open {
            start = Some(at);
        } else if c == close
            && let Some(start) = start
        {
            return Some(start..at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_keep_what_identifies_a_function() {
        for (full, expected) in [
            ("malloc", "malloc"),
            ("operator new(unsigned long)", "operator new"),
            ("operator new[](unsigned long)", "operator new[]"),
            ("void ns::Pool<int>::grow(unsigned long) const", "ns::Pool::grow"),
            ("std::map<int, std::vector<int> >::operator[](int const&)", "std::map::operator[]"),
            ("(anonymous namespace)::do_malloc(unsigned long)", "(anonymous namespace)::do_malloc"),
            ("bool a::operator< <b>(b const&)", "a::operator<"),
            ("std::ostream& operator<<(std::ostream&, int)", "operator<<"),
            ("f::operator()(int) const", "f::operator()"),
            ("parse(char*) [clone .isra.0]", "parse"),
            ("<alloc::vec::Vec<T,A> as core::clone::Clone>::clone", "alloc::vec::Vec::clone"),
            ("alloc::slice::<impl [T]>::to_vec", "alloc::slice::to_vec"),
            ("core::ptr::drop_in_place<alloc::string::String>", "core::ptr::drop_in_place"),
            ("alloc::alloc::exchange_malloc::h0123456789abcdef", "alloc::alloc::exchange_malloc"),
            ("void java.util.zip.Deflater.<init>(int, boolean)", "java.util.zip.Deflater.<init>"),
            ("void java.util.Arrays.<clinit>()", "java.util.Arrays.<clinit>"),
            ("app+0x1234", "app+0x1234"),
            ("[basket of 3 (new)]", "[basket of 3 (new)]"),
        ] {
            assert_eq!(short(full), expected, "{full}");
        }
    }

    #[test]
    fn jeprof_short_follows_its_three_substitutions() {
        for (full, expected) in [
            ("operator new(unsigned long)", "operator new"),
            ("(anonymous namespace)::do_malloc(unsigned long)", "::do_malloc"),
            ("void* newImpl<false>(unsigned long)", "void* newImpl"),
            ("void ns::f<int>(std::pair<int, int>) const", "ns::f"),
            ("int helper(int)", "int helper"),
            ("<T as Trait>::method", "T::method"),
            ("<alloc::vec::Vec<u8> as core::fmt::Debug>::fmt", "alloc::vec::Vec::fmt"),
        ] {
            assert_eq!(jeprof_short(full), expected, "{full}");
        }
    }
}
