//! Short lists of numbered things in private memory, appended to without a lock.
//!
//! Elements that are created one after the other are adjacent, and are usually searched in the same
//! order: walking a short list then stays in the cache, where a hash lookup would miss it each
//! time. Lists longer than [`LONGEST`] need a hash table beside them.
#![allow(unsafe_code)]

use core::ptr::null_mut;

use crate::atomics::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use crate::sys;

/// Most elements of a list that are looked at: call sites of a function, sizes of a call site.
const LONGEST: usize = 8;

/// The bits of a link that are the number; its user may keep something in the others.
pub(crate) const NUMBER: u32 = (1 << 24) - 1;

/// Where a search ended.
pub(crate) enum End<'a> {
    /// At what was looked for.
    Found(u32),
    /// At the end of the list, which is where it can be appended.
    Open(&'a AtomicU32),
    /// Nowhere: the list is too long.
    Long,
}

/// Searches the list that begins at `link`. Number 0 ends a list; `next` is the link behind a
/// number.
#[inline(always)]
pub(crate) fn search<'a>(
    mut link: &'a AtomicU32,
    next: impl Fn(u32) -> Option<&'a AtomicU32>,
    is_it: impl Fn(u32) -> bool,
) -> End<'a> {
    for _ in 0..LONGEST {
        match link.load(Ordering::Acquire) & NUMBER {
            0 => return End::Open(link),
            number if is_it(number) => return End::Found(number),
            number => match next(number) {
                Some(behind) => link = behind,
                None => return End::Long,
            },
        }
    }
    End::Long
}

/// Appends element `number`, which is completely written, at an open end; false when another thread
/// appended first: the list continues behind `end`.
pub(crate) fn append(end: &AtomicU32, number: u32) -> bool {
    let empty = end.load(Ordering::Relaxed) & !NUMBER;
    end.compare_exchange(empty, empty | number, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// A zeroed array in private memory, as long as a section of the segment. Memory is used on first
/// access. Zeroed memory is valid: no elements.
pub(crate) struct Array<T> {
    first: AtomicPtr<T>,
    len: AtomicUsize,
}

impl<T: Sync> Array<T> {
    /// Maps `len` zeroed elements; none without memory.
    pub(crate) fn map(&self, len: u64) {
        let Some(bytes) = (len as usize).checked_mul(size_of::<T>()).filter(|bytes| *bytes != 0) else {
            return;
        };
        if let Ok(memory) = sys::map_private(bytes) {
            self.first.store(memory.cast(), Ordering::Relaxed);
            self.len.store(len as usize, Ordering::Release);
        }
    }

    /// Unmaps the elements. No thread may use them afterwards.
    pub(crate) fn release(&self) {
        let len = self.len.swap(0, Ordering::Relaxed);
        let first = self.first.swap(null_mut(), Ordering::Relaxed);
        if !first.is_null() {
            // SAFETY: mapped by `map` with this size; the caller ensures that no thread uses it.
            unsafe { sys::unmap(first.cast(), len * size_of::<T>()) };
        }
    }

    /// Lets the system use large pages for what is behind the first of them. With many elements
    /// every access is to another page, and a TLB miss costs more than a cache miss; with few
    /// elements a large page would be wasted.
    pub(crate) fn prefer_large_pages(&self) {
        const LARGE_PAGE: usize = 2 << 20;
        let start = self.first.load(Ordering::Relaxed) as usize;
        let end = start + self.len.load(Ordering::Relaxed) * size_of::<T>();
        let from = start.next_multiple_of(LARGE_PAGE) + LARGE_PAGE;
        if from < end {
            let _ = sys::advise(from, end - from, libc::MADV_HUGEPAGE);
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        if index as usize >= self.len.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: mapped with at least that many zeroed elements, for which zero is a valid `T`
        // (all of them are atomics); it stays until `release`.
        Some(unsafe { &*self.first.load(Ordering::Relaxed).add(index as usize) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_grows_at_its_end_and_not_for_ever() {
        let next: Array<AtomicU32> = Array { first: AtomicPtr::new(null_mut()), len: AtomicUsize::new(0) };
        let head = AtomicU32::new(0);
        let find = |number: u32| search(&head, |n| next.get(n), |n| n == number);
        next.map(64);
        for number in 1..=LONGEST as u32 {
            let End::Open(end) = find(number) else { panic!("{number} is not there yet") };
            end.store(0xab << 24, Ordering::Relaxed);
            assert!(append(end, number) && !append(end, 63), "one thread wins");
        }
        assert!((1..=LONGEST as u32).all(|number| matches!(find(number), End::Found(n) if n == number)));
        assert_eq!(head.load(Ordering::Relaxed), 0xab00_0001, "the other bits are kept");
        assert!(matches!(find(40), End::Long));
        assert!(next.get(64).is_none());
        next.release();
        assert!(next.get(1).is_none());
    }
}
