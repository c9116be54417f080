//! Filter of the addresses that may be a sampled block: a byte per page of a 4 GiB window, and a
//! byte per 16 bytes of a 16 MiB window.
//!
//! A free whose page has a zero byte is not a free of a sample: one load and a compare, no hash.
//! Neighbouring pages share cache lines, so the lines in use are those of the heap in use. When
//! samples are so close that most pages have one, the second byte rejects nearly all other blocks.
//! Counts saturate and then stay: an address that once shared its count with that many samples is
//! always looked up, which costs time but loses no sample. Those of pages saturate early: where
//! most pages have samples, threads would contend for counts that reject nothing.

use heapwise_format::entry_hooks::{FILTER_FOLD, FILTER_GRANULES, FILTER_PAGES};

use crate::atomics::{AtomicBool, AtomicU8, Ordering};

/// Counts by page. Farther addresses share them.
pub(crate) const PAGES: usize = FILTER_PAGES;
/// Counts by granule. Farther addresses share them.
pub(crate) const GRANULES: usize = FILTER_GRANULES;
/// The distance by which an address is shifted and added to itself, for its granule.
pub(crate) const FOLD: u8 = FILTER_FOLD;

/// Samples of a page that are counted; with more, the count saturates.
const MOST_OF_PAGE: u8 = 2;

/// Read by the stubs: the pages, then the granules.
#[repr(C)]
pub(crate) struct Filter {
    pages: [AtomicU8; PAGES],
    granules: [AtomicU8; GRANULES],
    /// Something may be in it.
    is_used: AtomicBool,
}

/// Not part of the session: the stubs read it by its address, from the first call on.
pub(crate) static FILTER: Filter = Filter {
    pages: [const { AtomicU8::new(0) }; PAGES],
    granules: [const { AtomicU8::new(0) }; GRANULES],
    is_used: AtomicBool::new(false),
};

fn bytes(address: u64) -> [&'static AtomicU8; 2] {
    let page = (address >> 12) as usize % PAGES;
    let granule = (address.wrapping_add(address >> FOLD) >> 4) as usize % GRANULES;
    [&FILTER.pages[page], &FILTER.granules[granule]]
}

pub(crate) fn add(address: u64) {
    set_used();
    for (byte, most) in bytes(address).into_iter().zip([MOST_OF_PAGE, u8::MAX - 1]) {
        let step = |count: u8| (count != u8::MAX).then(|| if count < most { count + 1 } else { u8::MAX });
        let _ = byte.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
    }
}

fn set_used() {
    // Threads share the line as long as none of them writes to it.
    if !FILTER.is_used.load(Ordering::Relaxed) {
        FILTER.is_used.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn remove(address: u64) {
    let step = |count: u8| (count != u8::MAX && count != 0).then(|| count - 1);
    for byte in bytes(address) {
        let _ = byte.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
    }
}

/// Makes every later free of this address a lookup.
pub(crate) fn pin(address: u64) {
    set_used();
    bytes(address).into_iter().for_each(|byte| byte.store(u8::MAX, Ordering::Relaxed));
}

pub(crate) fn may_hold(address: u64) -> bool {
    bytes(address).into_iter().all(|byte| byte.load(Ordering::Relaxed) != 0)
}

/// Sets all counts to 0, in a forked child, which has a single thread.
pub(crate) fn clear() {
    if !FILTER.is_used.swap(false, Ordering::Relaxed) {
        return;
    }
    for byte in FILTER.pages.iter().chain(&FILTER.granules) {
        if byte.load(Ordering::Relaxed) != 0 {
            byte.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arenas_of_threads_do_not_share_counts() {
        // The first blocks of two arenas of glibc.
        let [first, second] = [0x7f12_0400_0010, 0x7f12_0800_0010].map(|address| bytes(address)[1]);
        let distance = (&raw const *first).addr().abs_diff((&raw const *second).addr());
        assert!(distance >= 1 << 16, "{distance} bytes apart");
    }

    #[test]
    fn counts_down_unless_saturated() {
        let address = 0x1234_5000;
        add(address);
        add(address + 8);
        assert!(!may_hold(address + 16), "a neighbour on the same page");
        remove(address);
        assert!(may_hold(address));
        remove(address);
        assert!(!may_hold(address));
        (0..300).for_each(|_| add(address));
        (0..300).for_each(|_| remove(address));
        assert!(may_hold(address), "a saturated count cannot be trusted to reach zero");
        clear();
        assert!(!may_hold(address));
    }
}
