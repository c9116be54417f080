//! What is known of live blocks: bucket, thread and time of birth, kept here from a block's allocation to its free.
//!
//! A word per 16 bytes of heap, in private memory that only the probe reads. A block's word is written before the program gets the
//! block and taken out before the allocator gets it back, so whatever hands the block from thread to thread hands on the
//! word: it needs no order of its own.
#![allow(unsafe_code)]

use heapwise_format::event::Origin;
use heapwise_format::segment::Counter;

use crate::address_map::{AddressMap, Leaf};
use crate::atomics::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::{arch, segment, sys};

/// Of a block: its origin, and milliseconds of the recording above. Never 0, because no block is in bucket 0.
#[derive(Clone, Copy)]
pub(crate) struct Birth(u64);

/// Times are kept as far as there is room: twelve days.
const TIME_MASK: u64 = u64::MAX >> Origin::BITS;

impl Birth {
    #[inline(always)]
    pub(crate) fn new(origin: Origin, born_ms: u64) -> Birth {
        Birth(origin.bits() | born_ms << Origin::BITS)
    }

    #[inline(always)]
    pub(crate) fn origin(self) -> Origin {
        Origin::from_bits(self.0)
    }

    /// Milliseconds at `now_ms`; of a block that lives for more than twelve days, what is above those.
    #[inline(always)]
    pub(super) fn age_ms(self, now_ms: u64) -> u64 {
        let age = now_ms.wrapping_sub(self.0 >> Origin::BITS) & TIME_MASK;
        if age > TIME_MASK / 2 { not_before(age) } else { age }
    }
}

/// Six days are not very likely: a clock that was helped along is ahead of the drainer's next tick by some milliseconds.
#[cold]
#[inline(never)]
fn not_before(age: u64) -> u64 {
    const AHEAD_MS: u64 = 60_000;
    if age > TIME_MASK - AHEAD_MS { 0 } else { age }
}

/// Where a block's birth is kept.
#[derive(Clone, Copy)]
pub(crate) struct Place(&'static AtomicU64);

impl Place {
    #[inline(always)]
    pub(crate) fn get(self) -> Option<Birth> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            word => Some(Birth(word)),
        }
    }

    /// It will be written to in a moment.
    #[inline(always)]
    pub(crate) fn expect(self) {
        arch::expect_write(self.0);
    }

    #[inline(always)]
    pub(super) fn set(self, birth: Birth) {
        self.0.store(birth.0, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn clear(self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Of blocks at multiples of 16, and of those 8 bytes beyond: allocators with classes of 8 bytes put two of them side by side.
static EVEN: Births = AddressMap::new();
static ODD: Births = AddressMap::new();
/// A leaf for each 64 KiB.
type Births = AddressMap<AtomicU64, { 1 << 14 }>;
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Memory for leaves that was taken in advance: the next, and the end.
static RESERVE: AtomicUsize = AtomicUsize::new(0);
static RESERVE_END: AtomicUsize = AtomicUsize::new(0);
const LEAF_BYTES: usize = size_of::<Leaf<AtomicU64>>();

/// The place of a block at a multiple of 16, if there was ever one in its part of the heap.
#[inline(always)]
pub(crate) fn known(address: u64) -> Option<Place> {
    EVEN.known(address).map(Place)
}

/// The place of a block; `None` when there is no memory for it, or it is where no block can be.
#[inline(always)]
pub(super) fn place(address: u64) -> Option<Place> {
    known(address).or_else(|| made(address))
}

/// The birth of a block, which is forgotten; `None` for one that was never seen to come.
pub(super) fn take(address: u64) -> Option<Birth> {
    let (map, address) = map_of(address);
    let place = map.known(address).map(Place)?;
    let birth = place.get()?;
    place.clear();
    Some(birth)
}

fn map_of(address: u64) -> (&'static Births, u64) {
    if address & 8 == 0 { (&EVEN, address) } else { (&ODD, address ^ 8) }
}

#[cold]
#[inline(never)]
fn made(address: u64) -> Option<Place> {
    let (map, address) = map_of(address);
    if let Some(known) = map.known(address) {
        return Some(Place(known));
    }
    if !Births::may_be_block(address) {
        return None;
    }
    IS_USED.store(true, Ordering::Relaxed);
    let leaf = reserved().or_else(|| sys::map_private(LEAF_BYTES).ok())?;
    // SAFETY: zeroed memory of that size, which is unmapped by `init` only, after the map forgot it.
    if unsafe { map.publish(address, leaf.cast()) } {
        segment::counter(Counter::OwnBytes).fetch_add(LEAF_BYTES as u64, Ordering::Relaxed);
    } else {
        // SAFETY: nobody has seen it.
        unsafe { sys::unmap(leaf, LEAF_BYTES) };
    }
    map.known(address).map(Place)
}

/// Takes memory for the births of `heap` bytes more, as long as it is to be had. Once is enough.
pub(super) fn reserve(heap: usize) {
    let bytes = (heap / 2).next_multiple_of(LEAF_BYTES);
    if RESERVE.load(Ordering::Relaxed) != 0 {
        return;
    }
    if let Ok(memory) = sys::map_private(bytes) {
        RESERVE_END.store(memory as usize + bytes, Ordering::Relaxed);
        RESERVE.store(memory as usize, Ordering::Release);
    }
}

fn reserved() -> Option<*mut u8> {
    let next = |leaf: usize| (leaf < RESERVE_END.load(Ordering::Relaxed)).then_some(leaf + LEAF_BYTES);
    let leaf = RESERVE.fetch_update(Ordering::Acquire, Ordering::Acquire, next).ok()?;
    Some(leaf as *mut u8)
}

/// Starts empty (again after `fork`, where a single thread is).
pub(super) fn init() {
    if IS_USED.swap(false, Ordering::Relaxed) {
        for map in [&EVEN, &ODD] {
            for leaf in map.leaves() {
                // SAFETY: mapped by `made`; the map is cleared before anybody looks.
                unsafe { sys::unmap(leaf.cast(), LEAF_BYTES) };
            }
            map.clear();
        }
    }
    let (left, end) = (RESERVE.swap(0, Ordering::Relaxed), RESERVE_END.swap(0, Ordering::Relaxed));
    if left < end {
        // SAFETY: mapped by `reserve`, and nobody has had it.
        unsafe { sys::unmap(left as *mut u8, end - left) };
    }
}

/// Forgets every block: they belong to an earlier recording. Others may write meanwhile.
pub(super) fn forget() {
    if IS_USED.load(Ordering::Relaxed) {
        for leaf in EVEN.leaves().chain(ODD.leaves()) {
            // SAFETY: a leaf, which stays; its words are atomic for everybody.
            let words = unsafe { &*leaf };
            // Looked at first, so that pages that were never written stay nobody's.
            words
                .iter()
                .filter(|word| word.load(Ordering::Relaxed) != 0)
                .for_each(|word| Place(word).clear());
        }
    }
}

#[cfg(test)]
mod tests {
    use heapwise_format::event::{MOST_BUCKETS, NO_THREAD};

    use super::*;

    #[test]
    fn blocks_side_by_side_are_told_apart() {
        segment::for_tests();
        let addresses = [0x7100_0000_0010, 0x7100_0000_0018, 0x7100_0000_0020, 0x7100_4000_0008];
        for (bucket, address) in (1..).zip(addresses) {
            let place = place(address).expect("memory");
            assert!(place.get().is_none(), "{address:#x}");
            place.set(Birth::new(Origin::new(bucket, 7), 1000));
        }
        for (bucket, address) in (1..).zip(addresses) {
            let birth = take(address).expect("there");
            assert_eq!((birth.origin(), birth.age_ms(1500)), (Origin::new(bucket, 7), 500));
            assert!(take(address).is_none());
        }
        for nowhere in [0, 8, 1 << 48, u64::MAX] {
            assert!(place(nowhere).is_none() && take(nowhere).is_none(), "{nowhere:#x}");
        }
    }

    #[test]
    fn the_limits_of_a_birth() {
        let largest = Origin::new(MOST_BUCKETS as u32 - 1, NO_THREAD);
        let birth = Birth::new(largest, 1 << 40 | 5);
        assert_eq!(birth.origin(), largest);
        assert_eq!(birth.age_ms(1 << 40 | 9), 4);
        assert_eq!(birth.age_ms(1 << 40 | 3), 0, "born a little later than now");
        assert_eq!(birth.age_ms((1 << 40 | 5) + TIME_MASK / 2 + 1), TIME_MASK / 2 + 1, "seven days old");
    }
}
