//! Freed memory goes back to the kernel.
#![allow(unsafe_code)]

/// Returns the pages that glibc's allocator has free. Symbols of a binary leave tens of megabytes
/// of them, which a few small blocks in use would keep resident.
pub(crate) fn release() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function has no preconditions; it takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
