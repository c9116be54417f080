//! A lock-free hash table from a 64-bit hash to the number of what has it.
//!
//! Entries are single words: 40 bits of the hash and 24 bits of the number; the rest of the hash is
//! the entry's position, so two keys are confused with a probability of 2⁻⁵³ or less. Tables are
//! only filled, never changed: when one is half full a four times larger one is published before
//! it, and the older ones stay for lookups. Two threads that insert one key while a table is
//! published may create two numbers for it; readers see the same thing twice and add them up.
#![allow(unsafe_code)]

use core::ptr;

use heapwise_format::segment::Counter;

use crate::atomics::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::atomics::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use crate::segment::Segment;
use crate::sys;

/// A hash whose bits are all equally good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash(pub(crate) u64);

impl Hash {
    /// The entry that maps this hash to `number`, which is not 0 and has 24 bits.
    #[inline(always)]
    fn entry(self, number: u32) -> u64 {
        self.0 << NUMBER_BITS | u64::from(number)
    }

    /// The number of an entry, if it is this hash's.
    #[inline(always)]
    fn number_in(self, entry: u64) -> Option<u32> {
        let number = entry as u32 & ((1 << NUMBER_BITS) - 1);
        ((entry ^ self.0 << NUMBER_BITS) >> NUMBER_BITS == 0 && number != 0).then_some(number)
    }
}

const NUMBER_BITS: u32 = 24;
/// Slots of the first table, as a power of two: 64 KiB.
const FIRST_BITS: u32 = 13;
/// Each table has this many times the slots of the one before.
const GROWTH_BITS: u32 = 2;
/// 2¹³, 2¹⁵ … 2²⁵ slots: room for 2²⁴ numbers at half load.
const TABLES: usize = 7;

/// Slots looked at before a table counts as full; at half load a run of 32 is rare.
const LONGEST_RUN: usize = 4096;

struct Table {
    slots: AtomicPtr<AtomicU64>,
    used: AtomicU32,
}

/// Zeroed memory is valid: no entries.
pub(crate) struct HashTable {
    tables: [Table; TABLES],
    /// Tables published; the last one takes the insertions.
    published: AtomicUsize,
}

fn bits(level: usize) -> u32 {
    FIRST_BITS + GROWTH_BITS * level as u32
}

fn bytes(level: usize) -> usize {
    8 << bits(level)
}

impl HashTable {
    /// Unmaps the tables. No thread may use them afterwards.
    pub(crate) fn release(&self) {
        self.published.store(0, Release);
        for (level, table) in self.tables.iter().enumerate() {
            let slots = table.slots.swap(ptr::null_mut(), AcqRel);
            if !slots.is_null() {
                // SAFETY: mapped by `publish` with this size; the caller ensures that no thread
                // accesses it.
                unsafe { sys::unmap(slots.cast(), bytes(level)) };
            }
        }
    }

    fn slots(&self, level: usize) -> Option<&[AtomicU64]> {
        let slots = self.tables.get(level)?.slots.load(Acquire);
        // SAFETY: a published pointer is a mapping of that many zero-initialised words; it stays.
        (!slots.is_null()).then(|| unsafe { core::slice::from_raw_parts(slots, 1 << bits(level)) })
    }

    /// The number of `hash`, if it is where most are.
    #[inline]
    fn at_home(&self, level: usize, hash: Hash) -> Option<u32> {
        let slots = self.tables.get(level)?.slots.load(Acquire);
        // SAFETY: `level` is published, so these are `1 << bits` words, and the shift leaves that
        // many bits.
        let slot = unsafe { &*slots.add((hash.0 >> (64 - bits(level))) as usize) };
        hash.number_in(slot.load(Acquire))
    }

    /// The slots where `hash` may be, in the order they are filled.
    fn run(&self, level: usize, hash: Hash) -> Option<impl Iterator<Item = &AtomicU64>> {
        let slots = self.slots(level)?;
        let home = (hash.0 >> (64 - bits(level))) as usize;
        Some((home..home + LONGEST_RUN).filter_map(|index| slots.get(index & (slots.len() - 1))))
    }

    fn probe(&self, level: usize, hash: Hash) -> Option<u32> {
        for slot in self.run(level, hash)? {
            match slot.load(Acquire) {
                0 => return None,
                entry => {
                    if let Some(number) = hash.number_in(entry) {
                        return Some(number);
                    }
                }
            }
        }
        None
    }

    fn insert(&self, level: usize, hash: Hash, make: impl Fn() -> Option<u32>) -> Option<u32> {
        let mut made = None;
        for slot in self.run(level, hash)? {
            let mut entry = slot.load(Acquire);
            if entry == 0 {
                let number = match made {
                    Some(number) => number,
                    None => *made.insert(make()?),
                };
                match slot.compare_exchange(0, hash.entry(number), AcqRel, Acquire) {
                    Ok(_) => {
                        self.tables.get(level)?.used.fetch_add(1, Relaxed);
                        return Some(number);
                    }
                    Err(winner) => entry = winner,
                }
            }
            if let Some(number) = hash.number_in(entry) {
                return Some(number);
            }
        }
        None
    }

    /// The number of `hash`; if there is none, the one that `make` returns.
    #[inline]
    pub(crate) fn find_or_insert(
        &self,
        segment: &Segment,
        hash: Hash,
        make: impl Fn() -> Option<u32>,
    ) -> Option<u32> {
        let published = self.published.load(Acquire);
        let newest = published.wrapping_sub(1);
        if let Some(number) = self.at_home(newest, hash) {
            return Some(number);
        }
        self.search_or_insert(segment, published, hash, make)
    }

    #[inline(never)]
    fn search_or_insert(
        &self,
        segment: &Segment,
        published: usize,
        hash: Hash,
        make: impl Fn() -> Option<u32>,
    ) -> Option<u32> {
        if let Some(number) = self.probe(published.wrapping_sub(1), hash) {
            return Some(number);
        }
        let older = (0..published.saturating_sub(1)).rev().find_map(|level| self.probe(level, hash));
        let level = self.level_for_insertion(segment, published)?;
        match older {
            // Keys still in use are copied to the newest table, which is searched first.
            Some(number) => self.insert(level, hash, || Some(number)),
            None => self.insert(level, hash, make),
        }
    }

    /// The newest table, or one more if that is half full.
    fn level_for_insertion(&self, segment: &Segment, published: usize) -> Option<usize> {
        let newest = published.checked_sub(1);
        let full = |level: usize| {
            self.tables.get(level).is_none_or(|table| table.used.load(Relaxed) >> (bits(level) - 1) != 0)
        };
        match newest {
            Some(level) if !full(level) || published == TABLES => Some(level),
            _ => self.publish(segment, published).or(newest),
        }
    }

    fn publish(&self, segment: &Segment, level: usize) -> Option<usize> {
        let table = self.tables.get(level)?;
        if table.slots.load(Acquire).is_null() {
            let memory = sys::map_private(bytes(level)).ok()?;
            let stored = table.slots.compare_exchange(ptr::null_mut(), memory.cast(), AcqRel, Acquire);
            if stored.is_err() {
                // SAFETY: just mapped, and not published.
                unsafe { sys::unmap(memory, bytes(level)) };
            } else {
                segment.counter(Counter::OwnBytes).fetch_add(bytes(level) as u64, Relaxed);
            }
        }
        self.published.fetch_max(level + 1, Release);
        Some(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::TestSession;

    /// So many that the table grows twice.
    #[test]
    fn finds_every_number_after_it_has_grown() {
        let session = TestSession::new();
        // SAFETY: zeroed memory is valid.
        let table: Box<HashTable> = unsafe { Box::new_zeroed().assume_init() };
        let hash = |number: u32| Hash(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let find = |number, make: Option<u32>| table.find_or_insert(&session.segment, hash(number), || make);
        for number in 1..50_000 {
            assert_eq!(find(number, Some(number)), Some(number));
        }
        assert!((1..50_000).all(|number| find(number, None) == Some(number)));
        assert_eq!(find(50_000, None), None, "nothing is made");
        table.release();
        assert_eq!(find(7, Some(8)), Some(8), "all are gone");
        table.release();
    }
}
