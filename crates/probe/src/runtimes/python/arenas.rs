//! Which pages belong to the interpreter's own allocator: a bit for each page.
//!
//! A block in such a page was never seen by the hooks of `malloc`; every other block of the
//! interpreter was. Not part of the session: it is true in a forked child too.
#![allow(unsafe_code)]

use crate::atomics::{AtomicPtr, AtomicU64, Ordering};
use crate::sys;

const PAGE_BITS: u32 = 12;
const GIB_BITS: u32 = 30;
const ADDRESS_BITS: u32 = 48;
/// Words of the pages of a gibibyte.
const WORDS: usize = 1 << (GIB_BITS - PAGE_BITS - 6);

type Leaf = [AtomicU64; WORDS];

static GIBIBYTES: [AtomicPtr<Leaf>; 1 << (ADDRESS_BITS - GIB_BITS)] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; 1 << (ADDRESS_BITS - GIB_BITS)];

/// The word of a page, and its bit.
#[inline(always)]
fn place(address: u64) -> Option<(&'static AtomicU64, u64)> {
    let leaf = GIBIBYTES.get((address >> GIB_BITS) as usize)?.load(Ordering::Acquire);
    let page = (address >> PAGE_BITS) as usize;
    // SAFETY: null, or a mapping of that many words, which stays.
    let word = unsafe { leaf.as_ref() }?.get(page / 64 % WORDS)?;
    Some((word, 1 << (page % 64)))
}

/// Whether a block is in one of the interpreter's arenas.
#[inline(always)]
pub(crate) fn hold(address: u64) -> bool {
    place(address).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Adds the pages of an arena.
pub(crate) fn add(start: u64, bytes: u64) {
    for address in (start..start.saturating_add(bytes)).step_by(1 << PAGE_BITS) {
        if let Some((word, bit)) = place(address).or_else(|| make(address)) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// Removes pages that are unmapped.
pub(crate) fn remove(start: u64, bytes: u64) {
    for address in (start..start.saturating_add(bytes)).step_by(1 << PAGE_BITS) {
        match place(address) {
            Some((word, bit)) => drop(word.fetch_and(!bit, Ordering::Relaxed)),
            // No arena is near: large mappings of the program end here.
            None if bytes > 1 << GIB_BITS => return,
            None => {}
        }
    }
}

#[cold]
fn make(address: u64) -> Option<(&'static AtomicU64, u64)> {
    let slot = GIBIBYTES.get((address >> GIB_BITS) as usize)?;
    let memory = sys::map_private(size_of::<Leaf>()).ok()?;
    let none = core::ptr::null_mut();
    if slot.compare_exchange(none, memory.cast(), Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: mapped above and not published.
        unsafe { sys::unmap(memory, size_of::<Leaf>()) };
    }
    place(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_arenas() {
        let (start, bytes) = ((7 << GIB_BITS) - (512 << 10), 1 << 20);
        assert!(!hold(start));
        add(start, bytes);
        assert!(hold(start) && hold(start + bytes - 1) && !hold(start - 1) && !hold(start + bytes));
        remove(start + (256 << 10), 4096);
        assert!(!hold(start + (256 << 10)) && hold(start + (256 << 10) + 4096));
        remove(start, bytes);
        assert!(!hold(start) && !hold(start + bytes - 1));
        assert!(!hold(0) && !hold(u64::MAX));
    }
}
