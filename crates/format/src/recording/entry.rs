//! Entries: events after pairing. An entry names the bucket of its block, a free also its age.
//!
//! The payload of an events frame is two columns, because what a program does repeats and how long it
//! takes does not; kept apart, the first packs to almost nothing.
//!
//! ```text
//! u32      bytes of the first column
//! column 1 per entry a varint: step << 2 | kind
//!            0 allocation   1 free   2 free of the block the entry before allocated (step 0)
//!            3 other: (value << 3 | what) << 2 | 3, what being
//!              0 tick: value ms passed      1 thread: value is the thread of what follows
//!              2 allocation by realloc      3 allocation by realloc of a block that came from realloc
//!              4 gap: value events missing  5 free that was missed, seen by the reuse of its address
//!              6 frees of value unknown blocks
//! column 2 per free (kinds 1 and 5) a varint: milliseconds since the allocation
//! ```
//!
//! A bucket is told by the zigzag step from the last bucket of its like, allocations and frees each for
//! themselves: programs walk through their sites, and back through them when they tear down.

use crate::bytes::u32_at;
use crate::varint::{self, unzigzag, zigzag};

/// Which call made a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocKind {
    /// `malloc` and its like.
    Fresh,
    /// `realloc` of a block that did not itself come from `realloc`.
    FirstRealloc,
    /// `realloc` of a block that came from `realloc`.
    NextRealloc,
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A block came.
    Alloc {
        /// Its bucket.
        bucket: u32,
        /// By which call.
        kind: AllocKind,
    },
    /// A block went.
    Free {
        /// Its bucket.
        bucket: u32,
        /// Milliseconds it lived.
        age_ms: u64,
        /// Temporary: its thread did nothing else with the heap in between, all within a millisecond.
        temporary: bool,
    },
    /// A block went unseen: its address was handed out again.
    MissedFree {
        /// Its bucket.
        bucket: u32,
        /// Milliseconds until the reuse was seen.
        age_ms: u64,
    },
    /// Time passed.
    Tick(u64),
    /// What follows was done by this thread.
    Thread(u32),
    /// So many events are missing here.
    Gap(u64),
    /// So many blocks that were never seen to be allocated were freed.
    UnknownFree(u64),
}

const ALLOC: u64 = 0;
const FREE: u64 = 1;
const TEMPORARY: u64 = 2;
const OTHER: u64 = 3;
const TICK: u64 = 0;
const THREAD: u64 = 1;
const FIRST_REALLOC: u64 = 2;
const NEXT_REALLOC: u64 = 3;
const GAP: u64 = 4;
const MISSED: u64 = 5;
const UNKNOWN: u64 = 6;

/// What both ends remember from entry to entry; it starts afresh in every frame.
#[derive(Debug, Clone, Copy, Default)]
pub struct EntryState {
    last_alloc: u32,
    last_free: u32,
}

/// The step from `last` to `bucket`, which becomes the last.
#[inline]
fn step(last: &mut u32, bucket: u32) -> u64 {
    let step = zigzag(i64::from(bucket) - i64::from(*last));
    *last = bucket;
    step
}

/// Undoes [`step`]; `None` when it leads out of the numbers of buckets.
#[inline]
fn stepped(last: &mut u32, step: u64) -> Option<u32> {
    *last = u32::try_from(i64::from(*last).checked_add(unzigzag(step))?).ok()?;
    Some(*last)
}

impl EntryState {
    /// Appends an entry to the two columns. A temporary free must follow the entry that allocated its
    /// block directly.
    #[inline]
    pub fn encode(&mut self, entry: Entry, column: &mut impl Extend<u8>, ages: &mut impl Extend<u8>) {
        let other = |what: u64, value: u64| (value << 3 | what) << 2 | OTHER;
        let word = match entry {
            Entry::Alloc { bucket, kind } => {
                let step = step(&mut self.last_alloc, bucket);
                match kind {
                    AllocKind::Fresh => step << 2 | ALLOC,
                    AllocKind::FirstRealloc => other(FIRST_REALLOC, step),
                    AllocKind::NextRealloc => other(NEXT_REALLOC, step),
                }
            }
            Entry::Free { temporary: true, .. } => TEMPORARY,
            Entry::Free { bucket, age_ms, temporary: false } => {
                varint::put(ages, age_ms);
                step(&mut self.last_free, bucket) << 2 | FREE
            }
            Entry::MissedFree { bucket, age_ms } => {
                varint::put(ages, age_ms);
                other(MISSED, step(&mut self.last_free, bucket))
            }
            Entry::Tick(ms) => other(TICK, ms),
            Entry::Thread(thread) => other(THREAD, thread.into()),
            Entry::Gap(events) => other(GAP, events),
            Entry::UnknownFree(blocks) => other(UNKNOWN, blocks),
        };
        varint::put(column, word);
    }
}

/// Reads the payload of an events frame; ends early when the payload does not make sense, see
/// [`Entries::is_whole`].
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    column: &'a [u8],
    ages: &'a [u8],
    at: usize,
    ages_at: usize,
    state: EntryState,
}

impl<'a> Entries<'a> {
    /// The entries of a payload; `None` when it is shorter than it says.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Option<Self> {
        let len = u32_at(payload, 0)? as usize;
        let rest = payload.get(4..)?;
        let (column, ages) = (rest.get(..len)?, rest.get(len..)?);
        Some(Self { column, ages, at: 0, ages_at: 0, state: EntryState::default() })
    }

    /// Whether both columns were read to their ends.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.at == self.column.len() && self.ages_at == self.ages.len()
    }

    #[inline]
    fn age(&mut self) -> Option<u64> {
        varint::decode(self.ages, &mut self.ages_at)
    }

    fn other(&mut self, word: u64) -> Option<Entry> {
        let value = word >> 5;
        let mut realloc = |kind| {
            let bucket = stepped(&mut self.state.last_alloc, value)?;
            Some(Entry::Alloc { bucket, kind })
        };
        Some(match word >> 2 & 7 {
            TICK => Entry::Tick(value),
            THREAD => Entry::Thread(u32::try_from(value).ok()?),
            FIRST_REALLOC => realloc(AllocKind::FirstRealloc)?,
            NEXT_REALLOC => realloc(AllocKind::NextRealloc)?,
            GAP => Entry::Gap(value),
            MISSED => {
                let bucket = stepped(&mut self.state.last_free, value)?;
                Entry::MissedFree { bucket, age_ms: self.age()? }
            }
            UNKNOWN => Entry::UnknownFree(value),
            _ => return None,
        })
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        let word = varint::decode(self.column, &mut self.at)?;
        Some(match word & 3 {
            ALLOC => {
                let bucket = stepped(&mut self.state.last_alloc, word >> 2)?;
                Entry::Alloc { bucket, kind: AllocKind::Fresh }
            }
            FREE => {
                let bucket = stepped(&mut self.state.last_free, word >> 2)?;
                Entry::Free { bucket, age_ms: self.age()?, temporary: false }
            }
            TEMPORARY => Entry::Free { bucket: self.state.last_alloc, age_ms: 0, temporary: true },
            _ => self.other(word)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn sample() -> Vec<Entry> {
        let free = |bucket, age_ms| Entry::Free { bucket, age_ms, temporary: false };
        vec![
            Entry::Thread(3),
            Entry::Tick(70_000),
            Entry::Alloc { bucket: 1, kind: AllocKind::Fresh },
            Entry::Free { bucket: 1, age_ms: 0, temporary: true },
            Entry::Alloc { bucket: 900, kind: AllocKind::FirstRealloc },
            Entry::Free { bucket: 900, age_ms: 0, temporary: true },
            Entry::Alloc { bucket: u32::MAX, kind: AllocKind::NextRealloc },
            free(u32::MAX, 5),
            Entry::MissedFree { bucket: 7, age_ms: 1 << 40 },
            Entry::Gap(12),
            Entry::UnknownFree(1),
            free(2, 0),
        ]
    }

    fn payload(entries: &[Entry]) -> Vec<u8> {
        let (mut column, mut ages) = (Vec::new(), Vec::new());
        let mut state = EntryState::default();
        entries.iter().for_each(|entry| state.encode(*entry, &mut column, &mut ages));
        [&(column.len() as u32).to_le_bytes()[..], &column, &ages].concat()
    }

    #[test]
    fn round_trip() {
        let bytes = payload(&sample());
        let mut entries = Entries::new(&bytes).unwrap();
        assert_eq!(entries.by_ref().collect::<Vec<_>>(), sample());
        assert!(entries.is_whole());
    }

    #[test]
    fn cut_at_every_byte_is_noticed() {
        let bytes = payload(&sample());
        for cut in 0..bytes.len() {
            if let Some(mut entries) = Entries::new(&bytes[..cut]) {
                let read: Vec<_> = entries.by_ref().collect();
                assert!(sample().starts_with(&read) && read.len() < sample().len());
            }
        }
    }

    #[test]
    fn any_bytes_decode_without_panic() {
        let mut seed = 12345u64;
        for _ in 0..500 {
            let bytes: Vec<u8> = (0..120)
                .map(|at| {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if at == 0 {
                        80
                    } else if at < 4 {
                        0
                    } else {
                        (seed >> 33) as u8
                    }
                })
                .collect();
            Entries::new(&bytes).map(Iterator::count);
        }
    }
}
