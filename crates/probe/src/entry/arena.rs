//! A little memory of the probe's own for calls that come before any allocator can be found.
//!
//! In a normal start it stays unused. Its blocks are never reused and survive every `free`.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::c_void;

use crate::atomics::{AtomicUsize, Ordering};
use crate::live::filter;

const BYTES: usize = 64 * 1024;
/// Before each block: its size. Also the alignment of blocks.
const HEADER: usize = 16;

#[repr(align(16))]
struct Arena(UnsafeCell<[u8; BYTES]>);
// SAFETY: blocks are handed out once each, by an atomic counter.
unsafe impl Sync for Arena {}
static ARENA: Arena = Arena(UnsafeCell::new([0; BYTES]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Zeroed memory, or null when the arena is used up.
pub(crate) fn allocate(size: usize) -> *mut c_void {
    let Some(bytes) = size.checked_next_multiple_of(HEADER).and_then(|size| size.checked_add(HEADER)) else {
        return core::ptr::null_mut();
    };
    let claim = |used: usize| used.checked_add(bytes).filter(|end| *end <= BYTES);
    let Ok(at) = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim) else {
        return core::ptr::null_mut();
    };
    // SAFETY: `at .. at + bytes` is inside the arena and exclusive to this call.
    unsafe {
        let header = ARENA.0.get().cast::<u8>().add(at);
        filter::pin(header as u64 + HEADER as u64);
        header.cast::<usize>().write(size);
        header.add(HEADER).cast()
    }
}

/// Makes every free of a block of the arena a lookup, after the filter was cleared.
pub(crate) fn pin_blocks() {
    let mut at = 0;
    while at < USED.load(Ordering::Relaxed).min(BYTES) {
        // SAFETY: inside the arena; `allocate` wrote a header there before it was used.
        let block = unsafe { ARENA.0.get().cast::<u8>().add(at + HEADER) };
        filter::pin(block as u64);
        at += HEADER + size_of(block.cast()).next_multiple_of(HEADER);
    }
}

#[inline(always)]
pub(crate) fn holds(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(ARENA.0.get() as usize) < BYTES
}

pub(crate) fn size_of(block: *mut c_void) -> usize {
    // SAFETY: `holds(block)`: the header lies before it.
    unsafe { block.cast::<u8>().sub(HEADER).cast::<usize>().read() }
}

/// `realloc` of a block of the arena: a copy, still in the arena.
pub(crate) fn moved(old: *mut c_void, size: usize) -> *mut c_void {
    let new = allocate(size);
    if !new.is_null() {
        // SAFETY: both blocks have at least that many bytes, and they differ.
        unsafe {
            core::ptr::copy_nonoverlapping(old.cast::<u8>(), new.cast::<u8>(), size_of(old).min(size));
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_size_and_content_when_moved() {
        let block = allocate(24).cast::<u8>();
        // SAFETY: 24 bytes are ours.
        unsafe { block.write_bytes(7, 24) };
        let moved = moved(block.cast(), 40);
        assert!(holds(moved) && size_of(moved) == 40 && (moved as usize).is_multiple_of(16));
        // SAFETY: copied from above.
        assert_eq!(unsafe { *moved.cast::<u8>().add(23) }, 7);
        assert!(allocate(BYTES).is_null() && allocate(usize::MAX).is_null());
        assert!(!holds(core::ptr::null_mut()));
    }
}
