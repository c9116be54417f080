//! When live blocks were allocated: kept in log mode only, for the age that a free event carries.
//!
//! A word per 32 bytes of heap beside the shadow index, in private memory; blocks of the hash index
//! have theirs in their slot.
#![allow(unsafe_code)]

use heapwise_format::event::UNKNOWN_AGE;
use heapwise_format::segment::Counter;

use super::address_map::{AddressMap, Leaf};
use super::{hash, shadow};
use crate::atomics::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::session::Session;
use crate::sys;

/// Milliseconds of the recording when a block was allocated, and whether `realloc` returned it.
/// 0: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AllocTime(u32);

/// Times are kept modulo this plus 1: twelve days.
const TIME_MASK: u64 = (1 << 30) - 1;

impl AllocTime {
    /// Not known.
    pub(crate) const UNKNOWN: AllocTime = AllocTime(0);

    #[inline(always)]
    pub(crate) fn new(now_ms: u64, by_realloc: bool) -> AllocTime {
        AllocTime((((now_ms & TIME_MASK) as u32) + 1) << 1 | u32::from(by_realloc))
    }

    #[inline(always)]
    pub(crate) fn by_realloc(self) -> bool {
        self.0 & 1 != 0
    }

    /// Milliseconds at `now_ms`, modulo twelve days; [`UNKNOWN_AGE`] when it is not known.
    #[inline(always)]
    pub(crate) fn age_ms(self, now_ms: u64) -> u64 {
        if self == AllocTime::UNKNOWN {
            return UNKNOWN_AGE;
        }
        let born = u64::from(self.0 >> 1) - 1;
        let age = now_ms.wrapping_sub(born) & TIME_MASK;
        if age > TIME_MASK / 2 { clamp_age(age) } else { age }
    }
}

/// An age close to the modulus means that the clock stepped back by a few milliseconds (the
/// recorder's tick was late); it is treated as 0.
#[cold]
#[inline(never)]
fn clamp_age(age: u64) -> u64 {
    const AHEAD_MS: u64 = 60_000;
    if age > TIME_MASK - AHEAD_MS { 0 } else { age }
}

/// A leaf for each 128 KiB of heap.
type Map = AddressMap<AtomicU32, { 1 << 13 }>;

/// The allocation times of a session. Zeroed memory is valid: none.
pub(crate) struct AllocTimes {
    is_used: AtomicBool,
    /// Memory for leaves that was mapped in advance: the next, and the end.
    reserve: AtomicUsize,
    reserve_end: AtomicUsize,
    map: Map,
}

const LEAF_BYTES: usize = size_of::<Leaf<AtomicU32>>();

/// Where the allocation time of a block at a multiple of 16 is kept, if its leaf is there.
#[derive(Clone, Copy)]
pub(crate) struct TimeSlot<'a>(&'a AtomicU32);

impl TimeSlot<'_> {
    #[inline(always)]
    pub(crate) fn get(self) -> AllocTime {
        AllocTime(self.0.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn set(self, alloc_time: AllocTime) {
        self.0.store(alloc_time.0, Ordering::Relaxed);
    }
}

impl AllocTimes {
    /// The slot of a block of the shadow index, if its leaf is there.
    #[inline(always)]
    pub(crate) fn known(&self, address: u64) -> Option<TimeSlot<'_>> {
        self.map.known(address).and_then(|(leaf, place)| leaf.get(place)).map(TimeSlot)
    }

    /// The allocation time of a block of the shadow index; [`AllocTime::UNKNOWN`] afterwards.
    pub(super) fn take_shadowed(&self, address: u64) -> AllocTime {
        let Some(slot) = self.known(address) else { return AllocTime::UNKNOWN };
        let alloc_time = slot.get();
        if alloc_time != AllocTime::UNKNOWN {
            slot.set(AllocTime::UNKNOWN);
        }
        alloc_time
    }

    /// Maps memory for the allocation times of `heap` bytes more, while system calls are allowed.
    /// Once is enough.
    pub(crate) fn reserve(&self, heap: usize) {
        let bytes = (heap / 8).next_multiple_of(LEAF_BYTES);
        if self.reserve.load(Ordering::Relaxed) != 0 {
            return;
        }
        if let Ok(memory) = sys::map_private(bytes) {
            self.reserve_end.store(memory as usize + bytes, Ordering::Relaxed);
            self.reserve.store(memory as usize, Ordering::Release);
        }
    }

    fn take_reserved(&self) -> Option<*mut u8> {
        let end = self.reserve_end.load(Ordering::Relaxed);
        let next = |leaf: usize| (leaf < end).then_some(leaf + LEAF_BYTES);
        let leaf = self.reserve.fetch_update(Ordering::Acquire, Ordering::Acquire, next).ok()?;
        Some(leaf as *mut u8)
    }

    /// Unmaps the leaves. No thread may use them afterwards.
    pub(super) fn release(&self) {
        if self.is_used.swap(false, Ordering::Relaxed) {
            for leaf in self.map.leaves() {
                // SAFETY: mapped by `make`; the map is released before the next lookup.
                unsafe { sys::unmap(leaf.cast(), LEAF_BYTES) };
            }
            self.map.release();
        }
        let (left, end) =
            (self.reserve.swap(0, Ordering::Relaxed), self.reserve_end.swap(0, Ordering::Relaxed));
        if left < end {
            // SAFETY: mapped by `reserve`, and never handed out.
            unsafe { sys::unmap(left as *mut u8, end - left) };
        }
    }
}

/// Stores the allocation time of a block that is in an index. Without memory its age is not known.
pub(crate) fn set(session: &Session, address: u64, alloc_time: AllocTime) {
    let slot = if shadow::get(session, address).is_some() {
        session.live.alloc_times.known(address).or_else(|| make(session, address))
    } else {
        hash::alloc_time(session, address).map(TimeSlot)
    };
    if let Some(slot) = slot {
        slot.set(alloc_time);
    }
}

/// The allocation time in a slot of the hash index.
pub(super) fn from_word(word: u32) -> AllocTime {
    AllocTime(word)
}

#[cold]
#[inline(never)]
fn make(session: &Session, address: u64) -> Option<TimeSlot<'_>> {
    let alloc_times = &session.live.alloc_times;
    if !Map::may_be_block(address) {
        return None;
    }
    alloc_times.is_used.store(true, Ordering::Relaxed);
    let leaf = alloc_times.take_reserved().or_else(|| sys::map_private(LEAF_BYTES).ok())?;
    // SAFETY: zeroed memory of that size, which is unmapped by `release` only.
    if unsafe { alloc_times.map.publish(address, leaf.cast()) } {
        session.segment.counter(Counter::OwnBytes).fetch_add(LEAF_BYTES as u64, Ordering::Relaxed);
    } else {
        // SAFETY: not published.
        unsafe { sys::unmap(leaf, LEAF_BYTES) };
    }
    alloc_times.known(address)
}

/// Clears the allocation times of all blocks: they belong to an earlier recording. Other threads
/// may write meanwhile.
pub(crate) fn clear(session: &Session) {
    let alloc_times = &session.live.alloc_times;
    hash::clear_alloc_times(session);
    if alloc_times.is_used.load(Ordering::Relaxed) {
        for leaf in alloc_times.map.leaves() {
            // SAFETY: a leaf, which stays mapped; all its words are atomics.
            let words = unsafe { &*leaf };
            // Only words that are set are stored to: pages that were never written stay
            // unpopulated.
            for word in words.iter().filter(|word| word.load(Ordering::Relaxed) != 0) {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use heapwise_format::segment::IndexKind;

    use super::*;
    use crate::live::{self, Inserted, Live};

    #[test]
    fn a_word_has_age_and_call() {
        let alloc_time = AllocTime::new(1 << 40 | 5, true);
        assert!(alloc_time.by_realloc() && !AllocTime::new(0, false).by_realloc());
        assert_eq!(alloc_time.age_ms(1 << 40 | 9), 4);
        assert_eq!(alloc_time.age_ms(1 << 40 | 3), 0, "the clock stepped back");
        let old = TIME_MASK / 2 + 1;
        assert_eq!(alloc_time.age_ms((1 << 40 | 5) + old), old, "six days");
        assert_eq!(AllocTime::UNKNOWN.age_ms(7), UNKNOWN_AGE);
        assert_ne!(AllocTime::new(0, false), AllocTime::UNKNOWN);
    }

    /// In both indexes; the smallest segments, as Miri has them, have the hash index only.
    #[test]
    fn alloc_times_are_taken_once() {
        let session = &*crate::session::TestSession::new();
        let insert = |address| {
            matches!(live::insert(session, address, Live { tally: 3, size: 100 }, true), Inserted::Yes)
        };
        let remove = |address| live::remove(session, address, |_| false).map(|removed| removed.alloc_time);
        for index in [IndexKind::Shadow, IndexKind::Hash] {
            live::choose(session, index);
            for (ms, address) in (10..).zip([0x7100_0000_0010, 0x7100_0000_0020, 0x7100_4000_0000]) {
                assert!(insert(address));
                set(session, address, AllocTime::new(ms, false));
                assert_eq!(remove(address), Some(AllocTime::new(ms, false)));
                assert!(insert(address), "again, without a alloc_time");
                assert_eq!(remove(address), Some(AllocTime::UNKNOWN));
            }
        }
    }
}
