//! Which pages may hold a sampled block: one byte per page of a 4 GiB window of addresses.
//!
//! A free whose page has a zero byte is none of ours: one load and a compare, no hash. Neighbouring
//! pages share cache lines, so the lines in use are those of the heap in use. Counts saturate and then
//! stay: a page that once held 255 samples is looked up for ever, which costs time and no truth.

use core::sync::atomic::{AtomicU8, Ordering};

/// Bytes of the filter: pages of 4 KiB in 4 GiB. Farther addresses share them.
pub(crate) const PAGES: usize = 1 << 20;

/// Read by the stubs.
pub(crate) static FILTER: [AtomicU8; PAGES] = [const { AtomicU8::new(0) }; PAGES];

fn byte(address: u64) -> &'static AtomicU8 {
    &FILTER[(address >> 12) as usize % PAGES]
}

pub(crate) fn add(address: u64) {
    let step = |count: u8| count.checked_add(1);
    let _ = byte(address).fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
}

pub(crate) fn remove(address: u64) {
    let step = |count: u8| (count != u8::MAX && count != 0).then(|| count - 1);
    let _ = byte(address).fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
}

/// Looks up every free on this page for ever.
pub(crate) fn pin(address: u64) {
    byte(address).store(u8::MAX, Ordering::Relaxed);
}

pub(crate) fn may_hold(address: u64) -> bool {
    byte(address).load(Ordering::Relaxed) != 0
}

/// Forgets everything.
pub(crate) fn clear() {
    for byte in &FILTER {
        if byte.load(Ordering::Relaxed) != 0 {
            byte.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_down_unless_saturated() {
        let address = 0x1234_5000;
        add(address);
        add(address + 8);
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
