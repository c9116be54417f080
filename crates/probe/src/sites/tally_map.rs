//! Finds a thread's tallies: by site, and by the tally of another thread whose blocks it frees.
//!
//! Open addressing in private memory that only its thread uses. The first entries are part of the
//! thread's state, so that a thread with few sites maps nothing.
#![allow(unsafe_code)]

use core::ptr::null_mut;

use heapwise_format::segment::Counter;

use crate::atomics::Ordering;
use crate::segment::Segment;
use crate::sys;

/// Key of a lookup. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    /// The thread's own tally of a stack at a sampling distance.
    #[inline(always)]
    pub(crate) fn own(node: u32, rate: u16) -> Key {
        Key(1 << 63 | u64::from(node) | u64::from(rate) << 32)
    }

    /// The tally in which it counts the frees of another thread's blocks.
    #[inline(always)]
    pub(crate) fn remote(tally: u32) -> Key {
        Key(1 << 62 | u64::from(tally))
    }

    #[inline(always)]
    fn home(self, bits: u32) -> usize {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }
}

#[derive(Clone, Copy)]
struct Slot {
    key: u64,
    tally: u32,
}

const INLINE_BITS: u32 = 5;

/// Zeroed memory is valid: empty.
pub(crate) struct TallyMap {
    len: u32,
    /// Entries of the mapped table, as a power of two; 0 while the inline ones are enough.
    bits: u32,
    mapped: *mut Slot,
    inline: [Slot; 1 << INLINE_BITS],
}

impl TallyMap {
    /// The tally of a key.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<u32> {
        let (entries, bits) = self.entries();
        let mut place = key.home(bits);
        loop {
            let entry = entries.get(place)?;
            if entry.key == key.0 {
                return Some(entry.tally);
            }
            if entry.key == 0 {
                return None;
            }
            place = (place + 1) & (entries.len() - 1);
        }
    }

    /// Adds a key that is not there; without memory it is not added.
    pub(crate) fn insert(&mut self, segment: &Segment, key: Key, tally: u32) {
        let (entries, bits) = self.entries();
        // At most three quarters full, so that every search ends.
        if 4 * (self.len as usize + 1) > 3 * entries.len() && !self.grow(segment, bits + 1) {
            return;
        }
        self.len += 1;
        put(self.entries_mut(), key, tally);
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.entries_mut().fill(Slot { key: 0, tally: 0 });
    }

    /// Unmaps the table.
    pub(crate) fn unmap(&mut self, segment: &Segment) {
        if self.bits != 0 {
            // SAFETY: mapped by `grow` with this size; only this map refers to it.
            unsafe { sys::unmap(self.mapped.cast(), bytes(self.bits)) };
            segment.counter(Counter::OwnBytes).fetch_sub(bytes(self.bits) as u64, Ordering::Relaxed);
        }
        (self.bits, self.mapped) = (0, null_mut());
        self.clear();
    }

    fn grow(&mut self, segment: &Segment, bits: u32) -> bool {
        let Ok(memory) = sys::map_private(bytes(bits)) else { return false };
        segment.counter(Counter::OwnBytes).fetch_add(bytes(bits) as u64, Ordering::Relaxed);
        // SAFETY: fresh zeroed memory of that many entries.
        let larger = unsafe { core::slice::from_raw_parts_mut(memory.cast::<Slot>(), 1 << bits) };
        let (entries, _) = self.entries();
        for entry in entries.iter().filter(|entry| entry.key != 0) {
            put(larger, Key(entry.key), entry.tally);
        }
        let len = self.len;
        self.unmap(segment);
        (self.bits, self.mapped, self.len) = (bits, memory.cast(), len);
        true
    }

    #[inline(always)]
    fn entries(&self) -> (&[Slot], u32) {
        if self.bits == 0 {
            return (&self.inline, INLINE_BITS);
        }
        // SAFETY: mapped by `grow` with that many entries.
        (unsafe { core::slice::from_raw_parts(self.mapped, 1 << self.bits) }, self.bits)
    }

    fn entries_mut(&mut self) -> &mut [Slot] {
        if self.bits == 0 {
            return &mut self.inline;
        }
        // SAFETY: as `entries`; the borrow of the map is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.mapped, 1 << self.bits) }
    }
}

fn bytes(bits: u32) -> usize {
    size_of::<Slot>() << bits
}

/// Puts a key into a table that has a free entry.
fn put(entries: &mut [Slot], key: Key, tally: u32) {
    let mut place = key.home(entries.len().ilog2());
    while let Some(entry) = entries.get_mut(place) {
        if entry.key == 0 {
            *entry = Slot { key: key.0, tally };
            return;
        }
        place = (place + 1) & (entries.len() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_finds_every_key() {
        let session = crate::session::TestSession::new();
        // SAFETY: zeroed memory is valid.
        let mut map: Box<TallyMap> = unsafe { Box::new_zeroed().assume_init() };
        let keys = || {
            (1..2000_u32)
                .flat_map(|n| [(Key::own(n, 0), n), (Key::remote(n), n + 1), (Key::own(n, 3), n + 2)])
        };
        for (key, tally) in keys() {
            assert_eq!(map.get(key), None);
            map.insert(&session.segment, key, tally);
        }
        assert!(keys().all(|(key, tally)| map.get(key) == Some(tally)));
        map.clear();
        assert!(keys().all(|(key, _)| map.get(key).is_none()));
        map.insert(&session.segment, Key::own(7, 0), 1);
        map.unmap(&session.segment);
        assert_eq!(map.get(Key::own(7, 0)), None);
    }
}
