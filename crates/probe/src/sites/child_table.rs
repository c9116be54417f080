//! Finds the child of a node that has many: a lock-free hash from (parent, place, module) to a
//! node's number.
//!
//! Entries are single words: 40 bits of the hash and 24 bits of the number; the rest of the hash is
//! the entry's position, so two keys are confused with a probability of 2⁻⁵⁶ or less. Tables are
//! only filled, never changed: when one is half full a four times larger one is published before
//! it, and the older ones stay for lookups. Two threads that insert one key while a table is
//! published may create two nodes for it; readers see the same stack twice and add them up.
#![allow(unsafe_code)]

use core::ptr;

use heapwise_format::segment::Counter;

use crate::atomics::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::atomics::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use crate::session::Session;
use crate::sys;

/// A child to look for, and its hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) place: u64,
    pub(crate) parent: u32,
    pub(crate) module: u32,
    pub(crate) hash: u64,
}

impl Key {
    #[inline(always)]
    pub(crate) fn new(parent: u32, place: u64, module: u32) -> Key {
        let caller = u64::from(parent) | u64::from(module) << 32;
        let mixed = place ^ caller.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let product = u128::from(mixed) * 0x9e37_79b9_7f4a_7c15;
        Key { place, parent, module, hash: product as u64 ^ (product >> 64) as u64 }
    }

    /// The table entry that maps this key to node `id`.
    #[inline(always)]
    pub(crate) fn entry(self, id: u32) -> u64 {
        self.hash << ID_BITS | u64::from(id)
    }

    /// The node of an entry, if it is this key's.
    #[inline(always)]
    pub(crate) fn id_in(self, entry: u64) -> Option<u32> {
        let id = entry as u32 & ((1 << ID_BITS) - 1);
        ((entry ^ self.hash << ID_BITS) >> ID_BITS == 0 && id != 0).then_some(id)
    }
}

const ID_BITS: u32 = 24;
/// Slots of the first table, as a power of two: 64 KiB.
const FIRST_BITS: u32 = 13;
/// Each table has this many times the slots of the one before.
const GROWTH_BITS: u32 = 2;
/// 2¹³, 2¹⁵ … 2²⁵ slots: room for 2²⁴ nodes at half load.
const TABLES: usize = 7;

/// Slots looked at before a table counts as full; at half load a run of 32 is rare.
const LONGEST_RUN: usize = 4096;

struct Table {
    slots: AtomicPtr<AtomicU64>,
    used: AtomicU32,
}

/// The tables of a session. Zeroed memory is valid: none.
pub(super) struct ChildTable {
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

impl ChildTable {
    /// Unmaps the tables. No thread may use them afterwards.
    pub(super) fn release(&self) {
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

    /// The node of `key`, if it is where most keys are.
    #[inline]
    fn at_home(&self, level: usize, key: Key) -> Option<u32> {
        let slots = self.tables.get(level)?.slots.load(Acquire);
        // SAFETY: `level` is published, so these are `1 << bits` words, and the shift leaves that
        // many bits.
        let slot = unsafe { &*slots.add((key.hash >> (64 - bits(level))) as usize) };
        key.id_in(slot.load(Acquire))
    }

    /// The slots where `key` may be, in the order they are filled.
    fn run(&self, level: usize, key: Key) -> Option<impl Iterator<Item = &AtomicU64>> {
        let slots = self.slots(level)?;
        let home = (key.hash >> (64 - bits(level))) as usize;
        Some((home..home + LONGEST_RUN).filter_map(|index| slots.get(index & (slots.len() - 1))))
    }

    fn probe(&self, level: usize, key: Key) -> Option<u32> {
        for slot in self.run(level, key)? {
            match slot.load(Acquire) {
                0 => return None,
                entry => {
                    if let Some(id) = key.id_in(entry) {
                        return Some(id);
                    }
                }
            }
        }
        None
    }

    fn insert(&self, level: usize, key: Key, append: impl Fn() -> Option<u32>) -> Option<u32> {
        let mut made = None;
        for slot in self.run(level, key)? {
            let mut entry = slot.load(Acquire);
            if entry == 0 {
                let id = match made {
                    Some(id) => id,
                    None => *made.insert(append()?),
                };
                match slot.compare_exchange(0, key.entry(id), AcqRel, Acquire) {
                    Ok(_) => {
                        self.tables.get(level)?.used.fetch_add(1, Relaxed);
                        return Some(id);
                    }
                    Err(winner) => entry = winner,
                }
            }
            if let Some(id) = key.id_in(entry) {
                return Some(id);
            }
        }
        None
    }
}

/// The node of `key`; if there is none, the one that `append` makes.
#[inline]
pub(super) fn find_or_insert(session: &Session, key: Key, append: impl Fn() -> Option<u32>) -> Option<u32> {
    let table = &session.stack_tree.children;
    let published = table.published.load(Acquire);
    let newest = published.wrapping_sub(1);
    if let Some(id) = table.at_home(newest, key) {
        return Some(id);
    }
    search_or_insert(session, published, key, append)
}

#[inline(never)]
fn search_or_insert(
    session: &Session,
    published: usize,
    key: Key,
    append: impl Fn() -> Option<u32>,
) -> Option<u32> {
    let table = &session.stack_tree.children;
    if let Some(id) = table.probe(published.wrapping_sub(1), key) {
        return Some(id);
    }
    let older = (0..published.saturating_sub(1)).rev().find_map(|level| table.probe(level, key));
    let level = level_for_insertion(session, published)?;
    match older {
        // Keys still in use are copied to the newest table, which is searched first.
        Some(id) => table.insert(level, key, || Some(id)),
        None => table.insert(level, key, append),
    }
}

/// The newest table, or one more if that is half full.
fn level_for_insertion(session: &Session, published: usize) -> Option<usize> {
    let newest = published.checked_sub(1);
    let tables = &session.stack_tree.children.tables;
    let full = |level: usize| {
        tables.get(level).is_none_or(|table| table.used.load(Relaxed) >> (bits(level) - 1) != 0)
    };
    match newest {
        Some(level) if !full(level) || published == TABLES => Some(level),
        _ => publish(session, published).or(newest),
    }
}

fn publish(session: &Session, level: usize) -> Option<usize> {
    let ChildTable { tables, published } = &session.stack_tree.children;
    let table = tables.get(level)?;
    if table.slots.load(Acquire).is_null() {
        let memory = sys::map_private(bytes(level)).ok()?;
        let stored = table.slots.compare_exchange(ptr::null_mut(), memory.cast(), AcqRel, Acquire);
        if stored.is_err() {
            // SAFETY: just mapped, and not published.
            unsafe { sys::unmap(memory, bytes(level)) };
        } else {
            session.segment.counter(Counter::OwnBytes).fetch_add(bytes(level) as u64, Relaxed);
        }
    }
    published.fetch_max(level + 1, Release);
    Some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_tell_keys_apart() {
        let key = Key::new(1, 0x5555_0000_1234, 3);
        assert_eq!(key.id_in(key.entry(77)), Some(77));
        assert_eq!(key.id_in(0), None);
        for other in [
            Key::new(2, 0x5555_0000_1234, 3),
            Key::new(1, 0x5555_0000_1235, 3),
            Key::new(1, 0x5555_0000_1234, 4),
        ] {
            assert_eq!(other.id_in(key.entry(77)), None);
        }
    }
}
