//! tcmalloc, gperftools' and Google's: numeric properties by name.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};

use super::Statistics;
use crate::symbols::function;

type OfGperftools = unsafe extern "C" fn(*const c_char, *mut usize) -> c_int;
type OfGoogle = unsafe extern "C" fn(*const c_char, usize, *mut usize) -> bool;

pub(super) fn read() -> Option<Statistics> {
    // SAFETY: the signature in gperftools' malloc_extension_c.h.
    let plain = unsafe { function::<OfGperftools>(c"MallocExtension_GetNumericProperty") };
    // SAFETY: the signature in tcmalloc's internal_malloc_extension.h: a string_view in two
    // registers.
    let google = unsafe { function::<OfGoogle>(c"MallocExtension_Internal_GetNumericProperty") };
    let read = |name: &CStr| {
        let mut value = 0_usize;
        // SAFETY: the name is constant text and `value` takes the answer.
        let known = unsafe {
            match (plain, google) {
                (Some(ask), _) => ask(name.as_ptr(), &raw mut value) != 0,
                (None, Some(ask)) => ask(name.as_ptr(), name.count_bytes(), &raw mut value),
                (None, None) => false,
            }
        };
        known.then_some(value as u64)
    };
    let allocated = read(c"generic.current_allocated_bytes")?;
    let mapped = read(c"generic.heap_size").unwrap_or(0);
    let retained = read(c"tcmalloc.pageheap_unmapped_bytes").unwrap_or(0);
    let resident = mapped.saturating_sub(retained);
    Some(Statistics {
        allocated,
        resident,
        mapped,
        retained,
        active: resident.saturating_sub(read(c"tcmalloc.pageheap_free_bytes").unwrap_or(0)),
        free: resident.saturating_sub(allocated),
        ..Statistics::default()
    })
}
