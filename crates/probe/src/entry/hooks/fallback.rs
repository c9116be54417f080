//! Functions for hooks that no object of the start defines: a caller that the loader bound to the
//! probe must get a function that works.
//!
//! The types are erased as in the jump table; each function has the signature of the one it
//! replaces.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::Hook;
use super::resolve::real;
use crate::arena;

type Pointer = *mut c_void;
const PAGE: usize = 4096;

/// Gives a typed function the erased type of the jump table.
macro_rules! erased {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        pub(super) use $name::function as $name;
        mod $name {
            use super::*;
            $(#[$doc])*
            extern "C" fn typed($($argument: $type),*) -> $result $body
            /// The typed function with its type erased: only called through a pointer of the typed
            /// signature.
            #[unsafe(naked)]
            pub(crate) unsafe extern "C" fn function() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!("jmp {}", sym typed);
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!("b {}", sym typed);
            }
        }
    };
}

erased! { malloc(size: usize) -> Pointer { arena::allocate(size) } }
erased! { calloc(count: usize, size: usize) -> Pointer {
    count.checked_mul(size).map_or(core::ptr::null_mut(), arena::allocate)
} }
erased! { realloc(old: Pointer, size: usize) -> Pointer {
    if arena::holds(old) { arena::moved(old, size) } else { arena::allocate(size) }
} }
erased! { reallocarray(old: Pointer, count: usize, size: usize) -> Pointer {
    let Some(bytes) = count.checked_mul(size) else { return core::ptr::null_mut() };
    // SAFETY: the signature of realloc.
    unsafe { real::<unsafe extern "C" fn(_, _) -> Pointer>(Hook::Realloc)(old, bytes) }
} }
erased! { free(_block: Pointer) -> () {} }
erased! { posix_memalign(out: *mut Pointer, alignment: usize, size: usize) -> c_int {
    let block = aligned(alignment, size);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's variable.
    unsafe { *out = block };
    0
} }
erased! { memalign(alignment: usize, size: usize) -> Pointer { aligned(alignment, size) } }
erased! { valloc(size: usize) -> Pointer { aligned(PAGE, size) } }
erased! { new_aligned(size: usize, alignment: usize) -> Pointer { aligned(alignment, size) } }
erased! { malloc_usable_size(_block: Pointer) -> usize { 0 } }
erased! { mallocx(size: usize, flags: c_int) -> Pointer {
    const ZERO: c_int = 0x40;
    let block = aligned(1 << (flags & 63), size);
    if flags & ZERO != 0 && !block.is_null() {
        // SAFETY: `size` bytes, just allocated.
        unsafe { block.cast::<u8>().write_bytes(0, size) };
    }
    block
} }
erased! { rallocx(old: Pointer, size: usize, _flags: c_int) -> Pointer {
    // SAFETY: the signature of realloc.
    unsafe { real::<unsafe extern "C" fn(_, _) -> Pointer>(Hook::Realloc)(old, size) }
} }
erased! { xallocx(block: Pointer, _size: usize, _extra: usize, _flags: c_int) -> usize {
    crate::hooks::usable_size(block)
} }
erased! { dlclose(_handle: Pointer) -> c_int { 0 } }
erased! { exit(status: c_int) -> c_int { crate::sys::exit(status) } }
erased! { no_thread() -> c_int { libc::EAGAIN } }
erased! { refuse() -> c_int { -1 } }

/// By any aligned allocation function of the allocator underneath.
fn aligned(alignment: usize, size: usize) -> Pointer {
    if alignment <= 16 {
        // SAFETY: the signature of malloc.
        return unsafe { real::<unsafe extern "C" fn(_) -> Pointer>(Hook::Malloc)(size) };
    }
    let mut block = core::ptr::null_mut();
    if let Some(found) = crate::symbols::find_next(c"posix_memalign") {
        // SAFETY: the signature of posix_memalign.
        let function: unsafe extern "C" fn(*mut Pointer, usize, usize) -> c_int =
            unsafe { core::mem::transmute(found.address) };
        // SAFETY: `block` is ours.
        unsafe { function(&raw mut block, alignment, size) };
    }
    block
}
