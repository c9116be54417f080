//! `mallctl` and its kin: jemalloc's introspection, whatever allocator is underneath.
//!
//! Where a jemalloc stands behind the probe, every call is passed on to it, except those about profiling while
//! it is the probe that profiles.
#![allow(unsafe_code)]

mod names;
mod node;
mod value;

use core::ffi::{CStr, c_char, c_int, c_void};

use self::names::{NAMES, Name};
use self::value::Request;
use crate::conf::options;
use crate::fixed_text::FixedText;
use crate::symbols::function;
use crate::{allocator, sys};

/// First component of our mibs, plus the row of the name: no jemalloc has as many names.
const FIRST_MIB: usize = 0x6865_6170;

type Mallctl = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
type ByMib = unsafe extern "C" fn(*const usize, usize, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
type ToMib = unsafe extern "C" fn(*const c_char, *mut usize, *mut usize) -> c_int;
type Print = unsafe extern "C" fn(Option<Callback>, *mut c_void, *const c_char);
type Callback = unsafe extern "C" fn(*mut c_void, *const c_char);

/// The row of a name that we answer ourselves, with a jemalloc behind us or not.
fn own(name: &CStr, is_alone: bool) -> Option<usize> {
    let row = NAMES.iter().position(|known| known.text == name.to_bytes())?;
    let about_profiling = NAMES.get(row).is_some_and(Name::is_about_profiling);
    (is_alone || options().prof && about_profiling).then_some(row)
}

/// Reads or writes a value by its name.
///
/// # Safety
/// jemalloc's contract: `old` has room for `*old_len` bytes, `new` points to `new_len` bytes.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn mallctl(
    name: *const c_char,
    old: *mut c_void,
    old_len: *mut usize,
    new: *mut c_void,
    new_len: usize,
) -> c_int {
    crate::start::ensure();
    // SAFETY: the signature of mallctl; the name is text; the rest is passed on or used as promised.
    unsafe {
        let real = function::<Mallctl>(c"mallctl");
        match (own(CStr::from_ptr(name), real.is_none()), real) {
            (Some(row), _) => answer(row, old, old_len, new, new_len),
            (None, Some(real)) => real(name, old, old_len, new, new_len),
            (None, None) => libc::ENOENT,
        }
    }
}

/// Translates a name for [`mallctlbymib`].
///
/// # Safety
/// jemalloc's contract: `mib` has room for `*len` words.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn mallctlnametomib(name: *const c_char, mib: *mut usize, len: *mut usize) -> c_int {
    crate::start::ensure();
    // SAFETY: as `mallctl`.
    unsafe {
        let real = function::<ToMib>(c"mallctlnametomib");
        let name_text = CStr::from_ptr(name);
        let row = match (own(name_text, real.is_none()), real) {
            (Some(row), _) => row,
            (None, Some(real)) => return real(name, mib, len),
            (None, None) => return libc::ENOENT,
        };
        let depth = name_text.to_bytes().split(|byte| *byte == b'.').count().min(*len);
        for place in 0..depth {
            *mib.add(place) = if place == 0 { FIRST_MIB + row } else { 0 };
        }
        *len = depth;
        0
    }
}

/// Reads or writes a value by its translated name.
///
/// # Safety
/// As [`mallctl`], and `mib` has `len` words.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn mallctlbymib(
    mib: *const usize,
    len: usize,
    old: *mut c_void,
    old_len: *mut usize,
    new: *mut c_void,
    new_len: usize,
) -> c_int {
    crate::start::ensure();
    // SAFETY: as `mallctl`.
    unsafe {
        let row = if len == 0 { None } else { (*mib).checked_sub(FIRST_MIB) };
        match row.filter(|row| *row < NAMES.len()) {
            Some(row) => answer(row, old, old_len, new, new_len),
            None => function::<ByMib>(c"mallctlbymib")
                .map_or(libc::ENOENT, |real| real(mib, len, old, old_len, new, new_len)),
        }
    }
}

/// # Safety
/// As [`mallctl`].
unsafe fn answer(
    row: usize,
    old: *mut c_void,
    old_len: *mut usize,
    new: *mut c_void,
    new_len: usize,
) -> c_int {
    let Some(name) = NAMES.get(row) else { return libc::ENOENT };
    // SAFETY: the caller's promise.
    let mut request = unsafe { Request::new(old, old_len, new, new_len) };
    node::answer(name.node, &mut request).err().map_or(0, |refusal| refusal.errno())
}

/// Prints the allocator's statistics.
///
/// # Safety
/// jemalloc's contract: `write` may be called with `opaque`.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn malloc_stats_print(
    write: Option<Callback>,
    opaque: *mut c_void,
    opts: *const c_char,
) {
    crate::start::ensure();
    // SAFETY: the signature of malloc_stats_print.
    if let Some(real) = unsafe { function::<Print>(c"malloc_stats_print") } {
        // SAFETY: passed on as it is.
        return unsafe { real(write, opaque, opts) };
    }
    let numbers = allocator::statistics().unwrap_or_default();
    let mut text = FixedText::<512>::new();
    text.push(b"___ Begin heapwise statistics ___\n");
    for (label, bytes) in [
        (&b"Allocated: "[..], numbers.allocated),
        (b", active: ", numbers.active),
        (b", metadata: ", numbers.metadata),
        (b", resident: ", numbers.resident),
        (b", mapped: ", numbers.mapped),
        (b", retained: ", numbers.retained),
    ] {
        text.push(label).push_decimal(bytes);
    }
    text.push(b"\n--- End heapwise statistics ---\n");
    match (write, text.as_c_str()) {
        // SAFETY: the program's function, as promised.
        (Some(write), Some(text)) => unsafe { write(opaque, text.as_ptr()) },
        _ => sys::write_error(text.as_bytes()),
    }
}
