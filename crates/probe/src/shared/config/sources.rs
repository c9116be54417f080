//! Where option texts come from.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

use crate::environment;
use crate::fixed_text::FixedText;
use crate::{symbols, sys};

const OWN_VARIABLE: &[u8] = b"HEAPWISE_CONF";
const FOREIGN_VARIABLE: &[u8] = b"MALLOC_CONF";
const TCMALLOC_VARIABLE: &[u8] = b"TCMALLOC_SAMPLE_PARAMETER";
/// Longest text of one source.
const TEXT_BYTES: usize = 4096;

/// A place that holds options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// `HEAPWISE_CONF`.
    Own,
    /// The program's variable `malloc_conf`.
    Symbol,
    /// The target of the link `/etc/malloc.conf`.
    Link,
    /// `MALLOC_CONF`.
    Variable,
}

/// Our own variable.
pub(super) fn own() -> Option<FixedText<TEXT_BYTES>> {
    environment::variable(OWN_VARIABLE)
}

/// Hands jemalloc's sources to `take`, in the order they are applied.
pub(super) fn foreign(take: impl FnOnce(&[(Source, &[u8])])) {
    let mut link = [0; TEXT_BYTES];
    let link = sys::read_link(c"/etc/malloc.conf", &mut link);
    let variable = if is_privileged() { None } else { environment::variable::<TEXT_BYTES>(FOREIGN_VARIABLE) };
    let variable = variable.as_ref().map_or(&b""[..], FixedText::as_bytes);
    take(&[(Source::Symbol, symbol()), (Source::Link, link), (Source::Variable, variable)]);
}

/// tcmalloc's mean distance between samples, in bytes; `None`: not set, or 0.
pub(super) fn sample_parameter() -> Option<u64> {
    if is_privileged() {
        return None;
    }
    let text = environment::variable::<TEXT_BYTES>(TCMALLOC_VARIABLE)?;
    u64::try_from(super::parse_number(text.as_bytes())?).ok().filter(|bytes| *bytes != 0)
}

/// The text of the program's `const char *malloc_conf`.
fn symbol() -> &'static [u8] {
    let Some(found) = symbols::find_next(c"malloc_conf") else { return &[] };
    // SAFETY: jemalloc's contract for a variable of this name: a pointer to constant text, or null.
    unsafe {
        let text = *found.address.cast::<*const c_char>();
        if text.is_null() { &[] } else { CStr::from_ptr(text).to_bytes() }
    }
}

/// Whether the kernel gave the program more rights than its user has: then the user's environment
/// is not read.
fn is_privileged() -> bool {
    sys::auxiliary(libc::AT_SECURE) != 0
}
