//! Entries: events after pairing. An entry names the bucket of its block, a free also its age.
//!
//! The payload of an events frame is five columns, each of one kind of thing, because packers find what
//! repeats within a kind:
//!
//! ```text
//! u32 × 4  bytes of the first four columns
//! main     a byte per entry: kind | code << 2
//!            0 allocation   1 free   2 allocation freed at once (temporary)   3 other, code says which:
//!              0 tick: value ms passed      1 thread: value is the thread of what follows
//!              2 gap: value events missing  3 frees of value unknown blocks
//!              4 free that was missed, seen by the reuse of its address
//!              5, 6 allocation by realloc, 6 if of a block that came from realloc
//!              7, 8 the same, freed at once
//! lows     of far buckets: the lowest byte
//! highs    of far buckets: the rest, a varint
//! ages     per free (kind 1 and other 4) a varint, see Age
//! values   per value a varint
//! ```
//!
//! The code of kinds 0, 1 and 2 is the zigzag step from the last bucket of its like (allocations and frees
//! each for themselves: programs walk through their sites, and back when they tear down), or [`FAR`], and then the bucket
//! itself is among the far ones; it always is for others 4 to 8.

use super::Age;
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
    /// A block came and went: its thread did nothing else with the heap in between, all within a millisecond.
    Temporary {
        /// Its bucket.
        bucket: u32,
        /// By which call it came.
        kind: AllocKind,
    },
    /// A block went.
    Free {
        /// Its bucket.
        bucket: u32,
        /// How long it lived.
        age: Age,
    },
    /// A block went unseen: its address was handed out again.
    MissedFree {
        /// Its bucket.
        bucket: u32,
        /// How long until the reuse was seen.
        age: Age,
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

const ALLOC: u8 = 0;
const FREE: u8 = 1;
const TEMPORARY: u8 = 2;
const OTHER: u8 = 3;
const TICK: u8 = 0;
const THREAD: u8 = 1;
const GAP: u8 = 2;
const UNKNOWN: u8 = 3;
const MISSED: u8 = 4;
const FIRST_REALLOC: u8 = 5;
const NEXT_REALLOC: u8 = 6;
const TEMPORARY_FIRST_REALLOC: u8 = 7;
const TEMPORARY_NEXT_REALLOC: u8 = 8;
/// The code that says: not a step, but a bucket of its own.
const FAR: u8 = 63;

/// The columns of a payload being written.
#[derive(Debug, Clone, Default)]
pub struct Columns<B> {
    /// A byte per entry.
    pub main: B,
    /// Lowest bytes of far buckets.
    pub lows: B,
    /// The rest of them.
    pub highs: B,
    /// Ages of frees.
    pub ages: B,
    /// Values of others.
    pub values: B,
}

/// What both ends remember from entry to entry; it starts afresh in every frame.
#[derive(Debug, Clone, Copy)]
pub struct EntryState {
    last_alloc: u32,
    last_free: u32,
    /// Steps below this are written as such (the writer's choice; a reader need not know).
    limit: u64,
    steps: u32,
    far_steps: u32,
}

impl Default for EntryState {
    fn default() -> Self {
        Self { last_alloc: 0, last_free: 0, limit: u64::from(FAR), steps: 0, far_steps: 0 }
    }
}

/// Undoes a step; `None` when it leads out of the numbers of buckets.
#[inline]
fn stepped(last: u32, step: u64) -> Option<u32> {
    u32::try_from(i64::from(last).checked_add(unzigzag(step))?).ok()
}

impl EntryState {
    /// The state for the frame after this one. Steps between unrelated buckets only blur what packers could
    /// see, so a program that jumps between many buckets gets none but "the same again".
    #[must_use]
    pub fn of_next_frame(&self) -> Self {
        let jumps = self.far_steps > self.steps / 4;
        Self { limit: if jumps { 1 } else { u64::from(FAR) }, ..Self::default() }
    }

    /// Appends an entry to the columns. Most writers know the kind of theirs, and then little remains of this.
    #[inline(always)]
    pub fn encode<B: Extend<u8>>(&mut self, entry: Entry, columns: &mut Columns<B>) {
        let byte = match entry {
            Entry::Alloc { bucket, kind: AllocKind::Fresh } => {
                let last = core::mem::replace(&mut self.last_alloc, bucket);
                ALLOC | self.code(last, bucket, columns)
            }
            Entry::Temporary { bucket, kind: AllocKind::Fresh } => {
                let last = core::mem::replace(&mut self.last_alloc, bucket);
                TEMPORARY | self.code(last, bucket, columns)
            }
            Entry::Free { bucket, age } => {
                let last = core::mem::replace(&mut self.last_free, bucket);
                varint::put(&mut columns.ages, age.code());
                FREE | self.code(last, bucket, columns)
            }
            other => self.encode_other(other, columns) << 2 | OTHER,
        };
        columns.main.extend([byte]);
    }

    /// The code of a bucket, in its place in the byte.
    #[inline(always)]
    fn code<B: Extend<u8>>(&mut self, last: u32, bucket: u32, columns: &mut Columns<B>) -> u8 {
        let step = zigzag(i64::from(bucket) - i64::from(last));
        self.steps += 1;
        if step < self.limit {
            return (step as u8) << 2;
        }
        self.far_steps += u32::from(step >= u64::from(FAR));
        put_far(bucket, columns);
        FAR << 2
    }

    #[inline(never)]
    fn encode_other<B: Extend<u8>>(&mut self, entry: Entry, columns: &mut Columns<B>) -> u8 {
        let mut put = |what: u8, value: u64| {
            varint::put(&mut columns.values, value);
            what
        };
        match entry {
            Entry::Tick(ms) => put(TICK, ms),
            Entry::Thread(thread) => put(THREAD, thread.into()),
            Entry::Gap(events) => put(GAP, events),
            Entry::UnknownFree(blocks) => put(UNKNOWN, blocks),
            Entry::MissedFree { bucket, age } | Entry::Free { bucket, age } => {
                self.last_free = bucket;
                varint::put(&mut columns.ages, age.code());
                put_far(bucket, columns);
                MISSED
            }
            Entry::Alloc { bucket, kind } => {
                self.last_alloc = bucket;
                put_far(bucket, columns);
                if kind == AllocKind::NextRealloc { NEXT_REALLOC } else { FIRST_REALLOC }
            }
            Entry::Temporary { bucket, kind } => {
                self.last_alloc = bucket;
                put_far(bucket, columns);
                if kind == AllocKind::NextRealloc { TEMPORARY_NEXT_REALLOC } else { TEMPORARY_FIRST_REALLOC }
            }
        }
    }
}

#[inline(always)]
fn put_far<B: Extend<u8>>(bucket: u32, columns: &mut Columns<B>) {
    columns.lows.extend([bucket as u8]);
    varint::put(&mut columns.highs, u64::from(bucket >> 8));
}

impl<B: AsRef<[u8]>> Columns<B> {
    /// The parts of the payload in their order: the lengths first, to be written before them.
    #[must_use]
    pub fn parts(&self) -> ([u8; LENGTHS_BYTES], [&[u8]; 5]) {
        let parts = [&self.main, &self.lows, &self.highs, &self.ages, &self.values].map(AsRef::as_ref);
        let mut lengths = [0; LENGTHS_BYTES];
        for (target, part) in lengths.chunks_exact_mut(4).zip(parts) {
            target.copy_from_slice(&(part.len() as u32).to_le_bytes());
        }
        (lengths, parts)
    }
}

/// Bytes before the first column.
const LENGTHS_BYTES: usize = 16;

/// A column being read.
#[derive(Debug, Clone)]
struct Column<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Column<'_> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        varint::decode(self.bytes, &mut self.at)
    }

    fn is_read(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// Reads the payload of an events frame; ends early when the payload does not make sense, see
/// [`Entries::is_whole`].
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    main: Column<'a>,
    lows: Column<'a>,
    highs: Column<'a>,
    ages: Column<'a>,
    values: Column<'a>,
    last_alloc: u32,
    last_free: u32,
}

impl<'a> Entries<'a> {
    /// The entries of a payload; `None` when it is shorter than it says.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Option<Self> {
        let mut rest = payload.get(LENGTHS_BYTES..)?;
        let mut column = |number: usize| {
            let bytes;
            (bytes, rest) = rest.split_at_checked(u32_at(payload, 4 * number)? as usize)?;
            Some(Column { bytes, at: 0 })
        };
        let (main, lows, highs, ages) = (column(0)?, column(1)?, column(2)?, column(3)?);
        let values = Column { bytes: rest, at: 0 };
        Some(Self { main, lows, highs, ages, values, last_alloc: 0, last_free: 0 })
    }

    /// Whether all columns were read to their ends.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        [&self.main, &self.lows, &self.highs, &self.ages, &self.values].into_iter().all(Column::is_read)
    }

    #[inline]
    fn far(&mut self) -> Option<u32> {
        let low = u32::from(self.lows.byte()?);
        let high = u32::try_from(self.highs.varint()?).ok()?;
        high.checked_mul(1 << 8)?.checked_add(low)
    }

    #[inline]
    fn bucket(&mut self, last: u32, code: u8) -> Option<u32> {
        if code == FAR { self.far() } else { stepped(last, u64::from(code)) }
    }

    #[inline]
    fn alloc(&mut self, code: u8) -> Option<u32> {
        self.last_alloc = self.bucket(self.last_alloc, code)?;
        Some(self.last_alloc)
    }

    #[inline]
    fn free(&mut self, code: u8) -> Option<(u32, Age)> {
        self.last_free = self.bucket(self.last_free, code)?;
        Some((self.last_free, Age::from_code(self.ages.varint()?)))
    }

    fn other(&mut self, what: u8) -> Option<Entry> {
        let kind = match what {
            FIRST_REALLOC | TEMPORARY_FIRST_REALLOC => AllocKind::FirstRealloc,
            _ => AllocKind::NextRealloc,
        };
        Some(match what {
            TICK => Entry::Tick(self.values.varint()?),
            THREAD => Entry::Thread(u32::try_from(self.values.varint()?).ok()?),
            GAP => Entry::Gap(self.values.varint()?),
            UNKNOWN => Entry::UnknownFree(self.values.varint()?),
            MISSED => {
                let (bucket, age) = self.free(FAR)?;
                Entry::MissedFree { bucket, age }
            }
            FIRST_REALLOC | NEXT_REALLOC => Entry::Alloc { bucket: self.alloc(FAR)?, kind },
            TEMPORARY_FIRST_REALLOC | TEMPORARY_NEXT_REALLOC => {
                Entry::Temporary { bucket: self.alloc(FAR)?, kind }
            }
            _ => return None,
        })
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        let byte = self.main.byte()?;
        let code = byte >> 2;
        Some(match byte & 3 {
            ALLOC => Entry::Alloc { bucket: self.alloc(code)?, kind: AllocKind::Fresh },
            FREE => {
                let (bucket, age) = self.free(code)?;
                Entry::Free { bucket, age }
            }
            TEMPORARY => Entry::Temporary { bucket: self.alloc(code)?, kind: AllocKind::Fresh },
            _ => self.other(code)?,
        })
    }
}

#[cfg(test)]
mod tests;
