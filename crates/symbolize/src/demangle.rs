//! Names as programmers wrote them: C++ (Itanium) and Rust (v0 and legacy).

mod spelling;

use std::fmt::{self, Write};

/// Longest demangled name kept. Back-references let a name of a few hundred bytes expand without
/// bound; the longest in Clang, Boost and Rust binaries are about 10 KiB.
const MAX_NAME_BYTES: usize = 64 << 10;

/// The full form, with parameters, as `nm -C` and `addr2line -C` print it; the name itself when
/// it is not mangled.
#[must_use]
pub fn demangle(name: &str) -> String {
    demangle_rust(name).or_else(|| demangle_cpp(name)).unwrap_or_else(|| name.to_owned())
}

/// Whether a name carries more than itself.
pub(crate) fn is_mangled(name: &[u8]) -> bool {
    name.starts_with(b"_Z") || name.starts_with(b"_R")
}

fn demangle_rust(name: &str) -> Option<String> {
    if !name.starts_with("_R") && !is_rust_legacy(name) {
        return None;
    }
    let symbol = rustc_demangle::try_demangle(name).ok()?;
    bounded(format_args!("{symbol:#}"))
}

/// Legacy Rust names are C++ names whose last part is `h` and 16 hex digits.
fn is_rust_legacy(name: &str) -> bool {
    let name = name.split_once(".llvm.").map_or(name, |(name, _)| name);
    let hash = name
        .strip_prefix("_ZN")
        .and_then(|name| name.strip_suffix('E'))
        .and_then(|name| name.as_bytes().last_chunk::<19>());
    hash.is_some_and(|hash| hash.starts_with(b"17h") && hash[3..].iter().all(u8::is_ascii_hexdigit))
}

fn demangle_cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    if let Some((kind, target)) = spelling::thunk(name) {
        return Some(format!("{kind} to {}", demangle_cpp(&format!("_Z{target}"))?));
    }
    let symbol = cpp_demangle::Symbol::new(name.as_bytes()).ok()?;
    let mut out = Bounded::default();
    symbol.structured_demangle(&mut out, &cpp_demangle::DemangleOptions::default()).ok()?;
    Some(spelling::as_in_binutils(out.0))
}

/// Formats unless the result would be too long.
fn bounded(text: fmt::Arguments<'_>) -> Option<String> {
    let mut out = Bounded::default();
    out.write_fmt(text).ok()?;
    Some(out.0)
}

/// Text that refuses to grow beyond [`MAX_NAME_BYTES`].
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > MAX_NAME_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}
