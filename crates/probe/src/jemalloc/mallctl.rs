//! `mallctl` and related functions: jemalloc's introspection, over any allocator.
//!
//! Where jemalloc is the allocator underneath, it gets every call, except those about profiling
//! while the probe profiles. jemalloc's own functions and the program's callbacks are called
//! outside of the probe: they may allocate. A call from inside the probe, by jemalloc that prints
//! its statistics or by a signal handler that interrupted the probe, goes to jemalloc, else it
//! returns `EAGAIN`.
#![allow(unsafe_code)]

mod lookup;
mod names;
mod node;
mod print;
mod value;

use core::ffi::{CStr, c_char, c_int, c_void};

use self::lookup::NameMatch;
use self::names::{NAMES, Name};
pub(crate) use self::node::VERSION;
use self::value::Request;
use crate::atomics::AtomicU64;
use crate::inside::{Inside, enter};
use crate::jemalloc::options::options;
use crate::json::{Callback, Sink};
use crate::symbols::function;

/// Most components of a name.
const MOST_DEPTH: usize = 7;
/// First component of our mibs, plus the row of the name: no jemalloc has as many names. The
/// beginning of a name has the row after the last.
const FIRST_MIB: usize = 0x6865_6170;

type Mallctl = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
type ByMib = unsafe extern "C" fn(*const usize, usize, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
type ToMib = unsafe extern "C" fn(*const c_char, *mut usize, *mut usize) -> c_int;
type Print = unsafe extern "C" fn(Option<Callback>, *mut c_void, *const c_char);

/// A name that the probe answers itself, by its first `most` components. `is_alone`: the allocator
/// underneath is not jemalloc.
fn own(name: &CStr, most: usize, is_alone: bool) -> Option<NameMatch> {
    let found = lookup::find(name.to_bytes(), most)?;
    let about_profiling = found.row.and_then(|row| NAMES.get(row)).is_some_and(Name::is_about_profiling);
    (is_alone || options().prof && about_profiling).then_some(found)
}

/// Epochs that the program started, as jemalloc counts them. Zeroed memory is valid.
pub(crate) struct Epoch(AtomicU64);

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
    // SAFETY: the signature of mallctl; the name is text; the rest is passed on or used as
    // promised.
    unsafe {
        let real = function::<Mallctl>(c"mallctl");
        let Some(mut inside) = enter() else {
            return real.map_or(libc::EAGAIN, |real| real(name, old, old_len, new, new_len));
        };
        match (own(CStr::from_ptr(name), MOST_DEPTH, real.is_none()), real) {
            (Some(NameMatch { row: Some(row), depth, number }), _) => {
                answer(&mut inside, (row, depth, number), old, old_len, new, new_len)
            }
            (Some(_), None) => libc::ENOENT,
            (_, Some(real)) => inside.outside(|| real(name, old, old_len, new, new_len)),
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
    // SAFETY: as `mallctl`.
    unsafe {
        let real = function::<ToMib>(c"mallctlnametomib");
        let Some(mut inside) = enter() else {
            return real.map_or(libc::EAGAIN, |real| real(name, mib, len));
        };
        let found = match (own(CStr::from_ptr(name), *len, real.is_none()), real) {
            (Some(found), None) | (Some(found @ NameMatch { row: Some(_), .. }), _) => found,
            (_, Some(real)) => return inside.outside(|| real(name, mib, len)),
            (None, None) => return libc::ENOENT,
        };
        let place = found.row.and_then(|row| lookup::shape(row).1);
        for at in 0..found.depth {
            *mib.add(at) = match at {
                0 => FIRST_MIB + found.row.unwrap_or(NAMES.len()),
                _ if place == Some(at) => found.number,
                _ => 0,
            };
        }
        *len = found.depth;
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
    // SAFETY: as `mallctl`.
    unsafe {
        let real = function::<ByMib>(c"mallctlbymib");
        let row = if len == 0 { None } else { (*mib).checked_sub(FIRST_MIB) };
        let Some(mut inside) = enter() else {
            return real
                .filter(|_| row.is_none())
                .map_or(libc::EAGAIN, |real| real(mib, len, old, old_len, new, new_len));
        };
        match row.filter(|row| *row <= NAMES.len()) {
            Some(row) => {
                let place = lookup::shape(row).1.filter(|place| *place < len);
                let number = place.map_or(0, |place| *mib.add(place));
                answer(&mut inside, (row, len, number), old, old_len, new, new_len)
            }
            None => real
                .map_or(libc::ENOENT, |real| inside.outside(|| real(mib, len, old, old_len, new, new_len))),
        }
    }
}

/// Answers a row, its components and its number.
///
/// # Safety
/// As [`mallctl`].
unsafe fn answer(
    inside: &mut Inside,
    (row, depth, number): (usize, usize, usize),
    old: *mut c_void,
    old_len: *mut usize,
    new: *mut c_void,
    new_len: usize,
) -> c_int {
    let Some(node) = lookup::by_row(row, depth, number) else { return libc::ENOENT };
    // SAFETY: the caller's promise.
    let mut request = unsafe { Request::new(old, old_len, new, new_len) };
    node::answer(inside, node, number, &mut request).err().map_or(0, |refusal| refusal.errno())
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
    let Some(mut inside) = enter() else { return };
    // SAFETY: the signature of malloc_stats_print.
    if let Some(real) = unsafe { function::<Print>(c"malloc_stats_print") } {
        // SAFETY: passed on unchanged.
        return inside.outside(|| unsafe { real(write, opaque, opts) });
    }
    let letters = if opts.is_null() {
        &[]
    } else {
        // SAFETY: jemalloc's contract: text, or null.
        unsafe { CStr::from_ptr(opts) }.to_bytes()
    };
    print::print(&mut Sink::new(&mut inside, write, opaque), letters);
}
