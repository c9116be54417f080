//! Reading a runtime's memory without ever faulting: a page is read after a system call has
//! shown that it can be, and stays known until something is unmapped.
#![allow(unsafe_code)]

use crate::unwind::is_readable;

const PAGE_BITS: u32 = 12;
const PAGE: u64 = 1 << PAGE_BITS;
/// Sets of known pages, as a power of two.
const SET_BITS: u32 = 7;
const WAYS: usize = 2;
/// Nothing of a program is below.
const LOWEST: u64 = 1 << 16;
/// Nothing of a program is above.
const ADDRESS_BITS: u32 = 47;
/// Longest object that is read.
const LONGEST: u64 = 1 << 20;

/// Pages that can be read. Zeroed memory is valid: none.
pub(in crate::runtimes) struct Pages {
    /// Their numbers plus 1.
    known: [[u64; WAYS]; 1 << SET_BITS],
    /// The runtime generation that they belong to.
    generation: u32,
}

impl Pages {
    /// Drops all pages of another runtime generation; whether it did.
    #[inline(always)]
    pub(in crate::runtimes) fn validate(&mut self, generation: u32) -> bool {
        if self.generation == generation {
            return false;
        }
        self.known = [[0; WAYS]; 1 << SET_BITS];
        self.generation = generation;
        true
    }

    /// Whether they belong to this runtime generation.
    #[inline(always)]
    pub(in crate::runtimes) fn is_of(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// Drops all pages.
    pub(in crate::runtimes) fn clear(&mut self) {
        self.known = [[0; WAYS]; 1 << SET_BITS];
    }

    /// Whether the page of an address can be read.
    #[inline(always)]
    fn holds(&mut self, address: u64) -> bool {
        self.is_known(address) || self.holds_further((address >> PAGE_BITS) + 1)
    }

    /// Whether `len` bytes, which are at most a page, can be read, if that is known at once.
    #[inline(always)]
    pub(in crate::runtimes) fn are_known(&self, address: u64, len: u64) -> bool {
        self.is_known(address)
            && (address % PAGE <= PAGE - len || self.is_known(address.wrapping_add(len - 1)))
    }

    /// Whether the page of an address can be read, if that is known at once.
    #[inline(always)]
    fn is_known(&self, address: u64) -> bool {
        let page = (address >> PAGE_BITS) + 1;
        self.known.get(set_of(page)).is_some_and(|[first, _]| *first == page)
    }

    /// The word at `address`, which must be a multiple of 8, if it is known at once that it can be
    /// read.
    #[inline(always)]
    pub(in crate::runtimes) fn known_word(&self, address: u64) -> Option<u64> {
        // SAFETY: as `word`.
        (address.is_multiple_of(8) && self.is_known(address)).then(|| unsafe { word(address) })
    }

    /// As [`Pages::holds`], of a page that is not the first of its set.
    #[inline(never)]
    fn holds_further(&mut self, page: u64) -> bool {
        let Some([first, second]) = self.known.get_mut(set_of(page)) else { return false };
        let address = (page - 1) << PAGE_BITS;
        let is_possible = address >= LOWEST && address >> ADDRESS_BITS == 0;
        if *second != page && !(is_possible && is_readable(address)) {
            return false;
        }
        (*first, *second) = (page, *first);
        true
    }

    /// Whether `len` bytes can be read.
    #[inline(always)]
    pub(in crate::runtimes) fn holds_all(&mut self, address: u64, len: u64) -> bool {
        if len > LONGEST || !self.holds(address) {
            return false;
        }
        let last = address.wrapping_add(len.max(1) - 1);
        let mut page = (address | (PAGE - 1)).wrapping_add(1);
        while page <= last {
            if !self.holds(page) {
                return false;
            }
            page = page.wrapping_add(PAGE);
        }
        true
    }

    /// The word at `address`, which must be a multiple of 8.
    #[inline(always)]
    pub(in crate::runtimes) fn word(&mut self, address: u64) -> Option<u64> {
        // SAFETY: the page was checked, and an aligned word lies in one page.
        (address.is_multiple_of(8) && self.holds(address)).then(|| unsafe { word(address) })
    }

    /// Bytes of the runtime.
    ///
    /// # Safety
    /// They belong to an object that the calling thread's stack keeps alive, and that is not
    /// changed.
    pub(in crate::runtimes) unsafe fn bytes(&mut self, address: u64, len: u64) -> Option<&'static [u8]> {
        // SAFETY: checked, and kept by the caller's promise.
        self.holds_all(address, len).then(|| unsafe {
            core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address as usize), len as usize)
        })
    }
}

#[inline(always)]
fn set_of(page: u64) -> usize {
    page as usize % (1 << SET_BITS)
}

/// The word at an address that was checked.
///
/// # Safety
/// It can be read, and is a multiple of 8.
#[inline(always)]
pub(in crate::runtimes) unsafe fn word(address: u64) -> u64 {
    let pointer = core::ptr::with_exposed_provenance::<u64>(address as usize);
    // SAFETY: the caller's promise. Volatile: the runtime may write to it at the same time,
    // where it is a word of the runtime.
    unsafe { pointer.read_volatile() }
}

/// As [`word`], of 32 bits.
///
/// # Safety
/// It can be read, and is a multiple of 4.
#[inline(always)]
pub(in crate::runtimes) unsafe fn half_word(address: u64) -> u32 {
    let pointer = core::ptr::with_exposed_provenance::<u32>(address as usize);
    // SAFETY: the caller's promise; see `word`.
    unsafe { pointer.read_volatile() }
}

/// The byte at an address that was checked.
///
/// # Safety
/// It can be read.
#[inline(always)]
pub(in crate::runtimes) unsafe fn byte(address: u64) -> u8 {
    let pointer = core::ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: the caller's promise; see `word`.
    unsafe { pointer.read_volatile() }
}
