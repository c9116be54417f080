//! Entries of version 3. An entry names the bucket of its block, a free also its age.
//!
//! The payload of an events frame is five columns:
//!
//! ```text
//! u32 × 4  bytes of the first four columns
//! main     a byte per entry: kind | code << 2
//!            0 allocation   1 free   2 allocation freed at once (temporary)
//!            3 other, by code:
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
//! The code of kinds 0, 1 and 2 is the zigzag step from the last bucket of its kind, or [`FAR`],
//! and then the bucket itself is among the far ones; it always is for others 4 to 8.

use crate::bytes::u32_at;
use crate::recording::{Age, AllocKind};
use crate::varint::{self, unzigzag};

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A block came.
    Alloc {
        /// Its bucket.
        bucket: u32,
        /// By which call.
        kind: AllocKind,
    },
    /// A block came and went: its thread did nothing else with the heap in between, all within a
    /// millisecond.
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
        /// Its lifetime.
        age: Age,
    },
    /// A block went unseen: its address was handed out again.
    MissedFree {
        /// Its bucket.
        bucket: u32,
        /// Time until the reuse was seen.
        age: Age,
    },
    /// Time passed.
    Tick(u64),
    /// The following entries are of this thread.
    Thread(u32),
    /// Number of events missing here.
    Gap(u64),
    /// So many blocks that were never seen to be allocated were freed.
    UnknownFree(u64),
}

const ALLOC: u8 = 0;
const FREE: u8 = 1;
const TEMPORARY: u8 = 2;
const TICK: u8 = 0;
const THREAD: u8 = 1;
const GAP: u8 = 2;
const UNKNOWN: u8 = 3;
const MISSED: u8 = 4;
const FIRST_REALLOC: u8 = 5;
const NEXT_REALLOC: u8 = 6;
const TEMPORARY_FIRST_REALLOC: u8 = 7;
const TEMPORARY_NEXT_REALLOC: u8 = 8;
/// The code of a far bucket, which is not a step.
const FAR: u8 = 63;

/// Undoes a step; `None` when it leads out of the numbers of buckets.
#[inline]
fn stepped(last: u32, step: u64) -> Option<u32> {
    u32::try_from(i64::from(last).checked_add(unzigzag(step))?).ok()
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
    /// The entries of a payload; `None` when it is shorter than its header says.
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
