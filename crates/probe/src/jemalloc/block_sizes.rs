//! `nallocx` and `sallocx`: real sizes of blocks, over any allocator.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use crate::inside::enter;
use crate::symbols::function;
use crate::{arena, hooks};

/// Bytes that a block of `size` requested bytes would have. Where that is not known without
/// allocating one, the size itself.
///
/// # Safety
/// jemalloc's contract: `size` is not 0.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn nallocx(size: usize, flags: c_int) -> usize {
    type Nallocx = unsafe extern "C" fn(usize, c_int) -> usize;
    let Some(mut inside) = enter() else { return size };
    // SAFETY: the signature of nallocx.
    if let Some(real) = unsafe { function::<Nallocx>(c"nallocx") } {
        // SAFETY: passed on unchanged.
        return inside.outside(|| unsafe { real(size, flags) });
    }
    let slack = inside.slack.before_allocation(size as u64);
    size.saturating_add(slack.unwrap_or(0) as usize)
}

/// Bytes that a block has.
///
/// # Safety
/// jemalloc's contract: `block` is a live block.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn sallocx(block: *mut c_void, flags: c_int) -> usize {
    type Sallocx = unsafe extern "C" fn(*mut c_void, c_int) -> usize;
    if arena::holds(block) {
        return arena::size_of(block);
    }
    // SAFETY: the signature of sallocx.
    match unsafe { function::<Sallocx>(c"sallocx") } {
        // SAFETY: passed on unchanged.
        Some(real) => unsafe { real(block, flags) },
        None => hooks::usable_size(block),
    }
}
