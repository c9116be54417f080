//! Code objects that were named, so that their end is noticed: another code object may begin at the
//! same address, with the same instruction addresses and other lines.
//!
//! Open addressing, in static words. Without room for another, an object is not cached by
//! any thread.

use crate::atomics::{AtomicU32, AtomicU64, Ordering};

/// Places, as a power of two.
const BITS: u32 = 15;
/// Places that are tried for an object.
const PROBES: usize = 32;
/// In the place of an object that ended: the search goes on.
const ENDED: u64 = 1;
/// Bits of the filter, as a power of two.
const FILTER_BITS: u32 = 16;
/// Generations, as a power of two: objects with equal hashes share one.
const GENERATION_BITS: u32 = 12;

/// Words of the filter, and where it is in [`Codes`], for the stubs.
pub(crate) const FILTER_WORDS: usize = 1 << (FILTER_BITS - 6);
pub(crate) const FILTER_OFFSET: usize = core::mem::offset_of!(Codes, filter);

/// Named code objects. Zeroed memory is valid: none.
pub(crate) struct Codes {
    places: [AtomicU64; 1 << BITS],
    /// Most frees are of other objects: one load rejects them.
    filter: [AtomicU64; FILTER_WORDS],
    /// Incremented when one ends, by hash of the object.
    generations: [AtomicU32; 1 << GENERATION_BITS],
}

/// A hash of `bits` bits.
#[inline(always)]
fn hash(code: u64, bits: u32) -> usize {
    ((code >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

fn places(code: u64) -> impl Iterator<Item = usize> {
    (0..PROBES).map(move |step| (hash(code, BITS) + step) & ((1 << BITS) - 1))
}

/// Not part of the session: the objects of a forked child are those of its parent.
pub(crate) static CODES: Codes = Codes {
    places: [const { AtomicU64::new(0) }; 1 << BITS],
    filter: [const { AtomicU64::new(0) }; FILTER_WORDS],
    generations: [const { AtomicU32::new(0) }; 1 << GENERATION_BITS],
};

impl Codes {
    /// Changes when the code object at this address ends.
    #[inline(always)]
    pub(super) fn generation(&self, code: u64) -> u32 {
        self.generations.get(hash(code, GENERATION_BITS)).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn filter(&self, code: u64) -> (Option<&AtomicU64>, u64) {
        let bit = (code >> 4) as usize & ((1 << FILTER_BITS) - 1);
        (self.filter.get(bit / 64), 1 << (bit % 64))
    }

    /// Notes a code object that is named; false without room.
    pub(super) fn insert(&self, code: u64) -> bool {
        let (Some(filter), bit) = self.filter(code) else { return false };
        filter.fetch_or(bit, Ordering::Relaxed);
        for place in places(code).filter_map(|place| self.places.get(place)) {
            let found = place.load(Ordering::Relaxed);
            if found == code {
                return true;
            }
            if found <= ENDED {
                let taken = place.compare_exchange(found, code, Ordering::Relaxed, Ordering::Relaxed);
                if taken.is_ok() || taken == Err(code) {
                    return true;
                }
            }
        }
        false
    }

    /// Whether an object may be a code object that was named.
    #[inline(always)]
    pub(super) fn may_hold(&self, object: u64) -> bool {
        let (Some(filter), bit) = self.filter(object) else { return false };
        filter.load(Ordering::Relaxed) & bit != 0
    }

    /// An object of the interpreter ends; whether it is a code object that was named.
    #[inline(always)]
    pub(super) fn ends(&self, object: u64) -> bool {
        self.may_hold(object) && self.remove(object)
    }

    #[cold]
    fn remove(&self, object: u64) -> bool {
        let mut is_named = false;
        for place in places(object).filter_map(|place| self.places.get(place)) {
            match place.load(Ordering::Relaxed) {
                0 => break,
                found if found == object => {
                    place.store(ENDED, Ordering::Relaxed);
                    if let Some(generation) = self.generations.get(hash(object, GENERATION_BITS)) {
                        generation.fetch_add(1, Ordering::Release);
                    }
                    is_named = true;
                }
                _ => {}
            }
        }
        is_named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes() -> &'static Codes {
        let memory = crate::sys::map_private(size_of::<Codes>()).unwrap();
        // SAFETY: zeroed memory of that size is valid, and leaked.
        #[allow(unsafe_code)]
        unsafe {
            &*memory.cast()
        }
    }

    #[test]
    fn an_end_is_noticed_once() {
        let codes = codes();
        assert!(!codes.ends(0x5000));
        assert!(codes.insert(0x5000) && codes.insert(0x5000) && codes.insert(0x10_5000));
        assert!(!codes.ends(0x20_5000));
        assert_eq!(codes.generation(0x5000), 0);
        assert!(codes.ends(0x5000) && !codes.ends(0x5000));
        assert_eq!((codes.generation(0x5000), codes.generation(0x10_5000)), (1, 0));
        assert!(codes.ends(0x10_5000) && codes.insert(0x5000) && codes.ends(0x5000));
        assert_eq!(codes.generation(0x5000), 2);
    }

    #[test]
    fn a_full_table_refuses() {
        let codes = codes();
        let accepted = (1..1 << 20_u64).filter(|number| codes.insert(number << 6)).count();
        assert!((1 << (BITS - 1)..=1 << BITS).contains(&accepted), "{accepted}");
    }
}
