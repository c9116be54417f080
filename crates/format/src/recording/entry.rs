//! Entries: events after pairing. An entry names site and size of its block, a free also its age.
//!
//! The payload of an events frame is nine columns, each of one kind of number, because packers find
//! what repeats within a kind:
//!
//! ```text
//! u32 × 8     bytes of all columns but the last; bit 31 of the first: see below
//! main        a byte per entry: kind | code << 2
//!               0 allocation   1 free   2 allocation freed at once (temporary)
//!               3 other, by code:
//!                 0 tick: value ms passed      1 thread: value is the thread of what follows
//!                 2 gap: value events missing  3 frees of value unknown blocks
//!                 4 free that was missed, seen by the reuse of its address
//!                 5, 6 allocation by realloc, 6 if of a block that came from realloc
//!                 7, 8 the same, freed at once
//!                 9 mark: value marks were set before what follows
//!                 10, 11 free and missed free whose age is in milliseconds
//! site_lows   of far sites: the lowest byte
//! site_highs  of far sites: the rest, a varint
//! sizes       a byte per block: 0 the size of the last block of its site,
//!               1 to 253 sizes from 0 to 252,
//!               254 two bytes in the columns behind, 255 two bytes and the rest
//! size_lows   the lowest byte of such a size
//! size_mids   the second byte
//! size_highs  the rest, a varint
//! ages        per free (kind 1 and others 4, 10, 11) a varint, see Age
//! values      per value a varint
//! ```
//!
//! The code of kinds 0, 1 and 2 is the zigzag step from the last site of its kind (allocations and
//! frees have one each: programs walk through their sites, and back when they tear down), or
//! [`FAR`], and then the site itself is among the far ones. It always is for others 4 to 8, 10
//! and 11.
//!
//! If bit 31 of the first length is set, the bytes of the column of sizes are in the main column,
//! each behind the byte of its entry. That is for programs whose sizes repeat: packers then find
//! entries and sizes at once.

mod columns;
mod size_predictor;

use super::Age;
use crate::varint::{self, unzigzag, zigzag};

pub use columns::Columns;
use columns::{Column, are_read, split};
pub use size_predictor::SIZE_SLOTS;
use size_predictor::SizePredictor;

/// Which call made a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocKind {
    /// `malloc` and similar functions.
    Fresh,
    /// `realloc` of a block that did not itself come from `realloc`.
    FirstRealloc,
    /// `realloc` of a block that came from `realloc`.
    NextRealloc,
}

/// A block: where it was allocated, and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteBlock {
    /// Number of its site.
    pub site: u32,
    /// Requested bytes.
    pub size: u64,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A block was allocated.
    Alloc {
        /// The block.
        block: SiteBlock,
        /// By which call.
        kind: AllocKind,
    },
    /// A block was allocated and freed, within a millisecond and with no other event of its thread
    /// between.
    Temporary {
        /// The block.
        block: SiteBlock,
        /// By which call it was allocated.
        kind: AllocKind,
    },
    /// A block was freed.
    Free {
        /// The block.
        block: SiteBlock,
        /// Its lifetime.
        age: Age,
    },
    /// A block was freed by a call that was not seen: the allocator returned its address again.
    MissedFree {
        /// The block.
        block: SiteBlock,
        /// Time until the reuse was seen.
        age: Age,
    },
    /// Milliseconds passed.
    Tick(u64),
    /// The entries that follow are of this thread.
    Thread(u32),
    /// So many events are missing here.
    Gap(u64),
    /// So many blocks were freed whose allocation was not recorded.
    UnknownFree(u64),
    /// The program had set so many marks before the entries that follow.
    Mark(u64),
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
const MARK: u8 = 9;
const EXACT_FREE: u8 = 10;
const EXACT_MISSED: u8 = 11;
/// The code of a far site, which is not a step.
const FAR: u8 = 63;

const SAME_SIZE: u8 = 0;
/// The first size that does not fit into the byte of the column of sizes.
const LARGE_SIZE: u64 = 253;
const TWO_BYTES: u8 = 254;
const MORE_BYTES: u8 = 255;

/// The writer's state from entry to entry; it is reset in every frame. `T` holds [`SIZE_SLOTS`]
/// numbers.
#[derive(Debug, Clone)]
pub struct EntryState<T> {
    last_alloc: u32,
    last_free: u32,
    last_sizes: SizePredictor<T>,
    /// Steps below this are written as such (the writer's choice; readers do not depend on it).
    limit: u64,
    far_steps: u32,
    /// Whether sizes are in the main column (the writer's choice, stored in the payload).
    is_interleaved: bool,
    blocks: u32,
    /// Blocks that had not the size of the last one of their site.
    other_sizes: u32,
}

impl<T: AsMut<[u32]>> EntryState<T> {
    /// The state before the first entry.
    pub fn new(slots: T) -> Self {
        Self {
            last_alloc: 0,
            last_free: 0,
            last_sizes: SizePredictor::new(slots),
            limit: u64::from(FAR),
            far_steps: 0,
            is_interleaved: true,
            blocks: 0,
            other_sizes: 0,
        }
    }

    /// Entries in the columns of this frame.
    #[must_use]
    pub fn entries<B: AsRef<[u8]>>(&self, columns: &Columns<B>) -> usize {
        let sizes = if self.is_interleaved { self.blocks as usize } else { 0 };
        columns.main.as_ref().len() - sizes
    }

    /// Appends the payload of this frame to `out`.
    pub fn write<B: AsRef<[u8]>>(&self, columns: &Columns<B>, out: &mut impl Extend<u8>) {
        columns.write(self.is_interleaved, out);
    }

    /// Starts the frame after this one. Steps between unrelated sites only hide repetitions from
    /// packers, so a program that alternates between many sites gets only the step 0. Sizes are
    /// interleaved while three quarters of them repeat: lua's file is a fifth then, that of a
    /// program with random sizes would be a third larger.
    pub fn start_next_frame(&mut self) {
        let jumps = self.far_steps > self.blocks / 4;
        self.limit = if jumps { 1 } else { u64::from(FAR) };
        self.is_interleaved = self.other_sizes <= self.blocks / 4;
        (self.last_alloc, self.last_free) = (0, 0);
        (self.blocks, self.far_steps, self.other_sizes) = (0, 0, 0);
        self.last_sizes.reset();
    }

    /// Appends an entry to the columns. Inlined into callers with a constant kind of entry, it
    /// shrinks to little code.
    #[inline(always)]
    pub fn encode<B: Extend<u8>>(&mut self, entry: Entry, columns: &mut Columns<B>) {
        match entry {
            Entry::Alloc { block, kind: AllocKind::Fresh } => self.alloc(ALLOC, block, columns),
            Entry::Temporary { block, kind: AllocKind::Fresh } => self.alloc(TEMPORARY, block, columns),
            Entry::Free { block, age } if age.exact_ms().is_none() => {
                let last = core::mem::replace(&mut self.last_free, block.site);
                varint::put(&mut columns.ages, age.code());
                let code = self.code(last, block.site, columns);
                columns.main.extend([FREE | code]);
                self.put_size(block, columns);
            }
            other => self.encode_other(other, columns),
        }
    }

    #[inline(always)]
    fn alloc<B: Extend<u8>>(&mut self, kind: u8, block: SiteBlock, columns: &mut Columns<B>) {
        let last = core::mem::replace(&mut self.last_alloc, block.site);
        let code = self.code(last, block.site, columns);
        columns.main.extend([kind | code]);
        self.put_size(block, columns);
    }

    /// The code of a site, in its place in the byte.
    #[inline(always)]
    fn code<B: Extend<u8>>(&mut self, last: u32, site: u32, columns: &mut Columns<B>) -> u8 {
        let step = zigzag(i64::from(site) - i64::from(last));
        if step < self.limit {
            return (step as u8) << 2;
        }
        self.far_steps += u32::from(step >= u64::from(FAR));
        put_far(site, columns);
        FAR << 2
    }

    #[inline(always)]
    fn put_size<B: Extend<u8>>(&mut self, SiteBlock { site, size }: SiteBlock, columns: &mut Columns<B>) {
        let code = if self.last_sizes.update(site, size) {
            SAME_SIZE
        } else {
            self.other_sizes += 1;
            if size < LARGE_SIZE { size as u8 + 1 } else { put_large_size(size, columns) }
        };
        self.blocks += 1;
        let column = if self.is_interleaved { &mut columns.main } else { &mut columns.sizes };
        column.extend([code]);
    }

    /// An allocation that is not fresh, or an entry that is neither an allocation nor a plain free.
    #[inline(never)]
    fn encode_other<B: Extend<u8>>(&mut self, entry: Entry, columns: &mut Columns<B>) {
        let next = |kind| kind == AllocKind::NextRealloc;
        match entry {
            Entry::Tick(ms) => put_value(TICK, ms, columns),
            Entry::Thread(thread) => put_value(THREAD, thread.into(), columns),
            Entry::Gap(events) => put_value(GAP, events, columns),
            Entry::UnknownFree(blocks) => put_value(UNKNOWN, blocks, columns),
            Entry::Mark(marks) => put_value(MARK, marks, columns),
            Entry::MissedFree { block, age } => {
                let what = if age.exact_ms().is_some() { EXACT_MISSED } else { MISSED };
                self.put_far_free(what, block, age, columns);
            }
            Entry::Free { block, age } => self.put_far_free(EXACT_FREE, block, age, columns),
            Entry::Alloc { block, kind } => {
                let what = if next(kind) { NEXT_REALLOC } else { FIRST_REALLOC };
                self.put_far_alloc(what, block, columns);
            }
            Entry::Temporary { block, kind } => {
                let what = if next(kind) { TEMPORARY_NEXT_REALLOC } else { TEMPORARY_FIRST_REALLOC };
                self.put_far_alloc(what, block, columns);
            }
        }
    }

    fn put_far_alloc<B: Extend<u8>>(&mut self, what: u8, block: SiteBlock, columns: &mut Columns<B>) {
        self.last_alloc = block.site;
        put_far(block.site, columns);
        columns.main.extend([what << 2 | OTHER]);
        self.put_size(block, columns);
    }

    fn put_far_free<B: Extend<u8>>(
        &mut self,
        what: u8,
        block: SiteBlock,
        age: Age,
        columns: &mut Columns<B>,
    ) {
        self.last_free = block.site;
        varint::put(&mut columns.ages, age.code());
        put_far(block.site, columns);
        columns.main.extend([what << 2 | OTHER]);
        self.put_size(block, columns);
    }
}

fn put_value<B: Extend<u8>>(what: u8, value: u64, columns: &mut Columns<B>) {
    columns.main.extend([what << 2 | OTHER]);
    varint::put(&mut columns.values, value);
}

#[inline(always)]
fn put_far<B: Extend<u8>>(site: u32, columns: &mut Columns<B>) {
    columns.site_lows.extend([site as u8]);
    varint::put(&mut columns.site_highs, u64::from(site >> 8));
}

/// The code of a size that does not fit into the column of sizes.
#[inline]
fn put_large_size<B: Extend<u8>>(size: u64, columns: &mut Columns<B>) -> u8 {
    columns.size_lows.extend([size as u8]);
    columns.size_mids.extend([(size >> 8) as u8]);
    if size >> 16 == 0 {
        return TWO_BYTES;
    }
    varint::put(&mut columns.size_highs, size >> 16);
    MORE_BYTES
}

/// Undoes a step; `None` when it leads out of the numbers of sites.
#[inline]
fn stepped(last: u32, step: u64) -> Option<u32> {
    u32::try_from(i64::from(last).checked_add(unzigzag(step))?).ok()
}

/// Reads the payload of an events frame; ends early when the payload does not make sense, see
/// [`Entries::is_whole`]. `T` holds [`SIZE_SLOTS`] numbers, or one for each site if there are
/// fewer.
#[derive(Debug, Clone)]
pub struct Entries<'a, T> {
    columns: Columns<Column<'a>>,
    is_interleaved: bool,
    last_alloc: u32,
    last_free: u32,
    last_sizes: SizePredictor<T>,
}

impl<'a, T: AsMut<[u32]>> Entries<'a, T> {
    /// The entries of a payload; `None` when it is shorter than its header says.
    pub fn new(payload: &'a [u8], slots: T) -> Option<Self> {
        let ((columns, is_interleaved), last_sizes) = (split(payload)?, SizePredictor::new(slots));
        Some(Self { columns, is_interleaved, last_alloc: 0, last_free: 0, last_sizes })
    }

    /// Whether all columns were read to their ends.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        are_read(&self.columns)
    }

    #[inline]
    fn site(&mut self, last: u32, code: u8) -> Option<u32> {
        if code != FAR {
            return stepped(last, u64::from(code));
        }
        let low = u32::from(self.columns.site_lows.byte()?);
        let high = u32::try_from(self.columns.site_highs.varint()?).ok()?;
        high.checked_mul(1 << 8)?.checked_add(low)
    }

    #[inline]
    fn size(&mut self, site: u32) -> Option<u64> {
        let column = if self.is_interleaved { &mut self.columns.main } else { &mut self.columns.sizes };
        let size = match column.byte()? {
            SAME_SIZE => return self.last_sizes.predict(site),
            TWO_BYTES => self.two_bytes()?,
            MORE_BYTES => {
                let (low, high) = (self.two_bytes()?, self.columns.size_highs.varint()?);
                high.checked_mul(1 << 16)?.checked_add(low)?
            }
            code => u64::from(code) - 1,
        };
        self.last_sizes.update(site, size);
        Some(size)
    }

    #[inline]
    fn two_bytes(&mut self) -> Option<u64> {
        let (low, mid) = (self.columns.size_lows.byte()?, self.columns.size_mids.byte()?);
        Some(u64::from(low) | u64::from(mid) << 8)
    }

    #[inline]
    fn alloc(&mut self, code: u8) -> Option<SiteBlock> {
        let site = self.site(self.last_alloc, code)?;
        self.last_alloc = site;
        Some(SiteBlock { site, size: self.size(site)? })
    }

    #[inline]
    fn free(&mut self, code: u8) -> Option<SiteBlock> {
        let site = self.site(self.last_free, code)?;
        self.last_free = site;
        Some(SiteBlock { site, size: self.size(site)? })
    }

    #[inline]
    fn age(&mut self) -> Option<u64> {
        self.columns.ages.varint().filter(|code| *code < 1 << 63)
    }

    fn other(&mut self, what: u8) -> Option<Entry> {
        let kind = match what {
            FIRST_REALLOC | TEMPORARY_FIRST_REALLOC => AllocKind::FirstRealloc,
            _ => AllocKind::NextRealloc,
        };
        Some(match what {
            TICK => Entry::Tick(self.columns.values.varint()?),
            THREAD => Entry::Thread(u32::try_from(self.columns.values.varint()?).ok()?),
            GAP => Entry::Gap(self.columns.values.varint()?),
            UNKNOWN => Entry::UnknownFree(self.columns.values.varint()?),
            MARK => Entry::Mark(self.columns.values.varint()?),
            MISSED => Entry::MissedFree { block: self.free(FAR)?, age: Age::from_code(self.age()?) },
            EXACT_FREE => Entry::Free { block: self.free(FAR)?, age: Age::from_exact_code(self.age()?) },
            EXACT_MISSED => {
                Entry::MissedFree { block: self.free(FAR)?, age: Age::from_exact_code(self.age()?) }
            }
            FIRST_REALLOC | NEXT_REALLOC => Entry::Alloc { block: self.alloc(FAR)?, kind },
            TEMPORARY_FIRST_REALLOC | TEMPORARY_NEXT_REALLOC => {
                Entry::Temporary { block: self.alloc(FAR)?, kind }
            }
            _ => return None,
        })
    }
}

impl<T: AsMut<[u32]>> Iterator for Entries<'_, T> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        let byte = self.columns.main.byte()?;
        let code = byte >> 2;
        Some(match byte & 3 {
            ALLOC => Entry::Alloc { block: self.alloc(code)?, kind: AllocKind::Fresh },
            FREE => Entry::Free { block: self.free(code)?, age: Age::from_code(self.age()?) },
            TEMPORARY => Entry::Temporary { block: self.alloc(code)?, kind: AllocKind::Fresh },
            _ => self.other(code)?,
        })
    }
}

#[cfg(test)]
mod tests;
