//! One pass over all entries: sums over the events of each site in the whole recording.
//!
//! All of them are sums over frames, so frames are read on several threads.

use std::ops::{ControlFlow, Range};

use heapwise_format::recording::{Age, AllocKind, Entry, SiteBlock};

use super::parallel_read::read_shares;
use super::{Count, Damage, Recording, RecordingSource, Tables};

/// Upper ends of the classes of lifetimes in milliseconds; the last class is open.
pub(crate) const LIFETIME_CLASSES_MS: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// Points in time at which live bytes are known per site.
pub(crate) const POINTS: usize = 16;

/// Classes of sizes: 0, 1, and one per power of two above.
pub const SIZE_CLASSES: usize = 65;

/// Sums over the events of one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteStatistics {
    /// Blocks and bytes.
    pub count: Count,
    /// Blocks freed by their thread's next call, within the same millisecond.
    pub temporary: u64,
    /// Blocks made by `realloc` of a block that was not.
    pub first_reallocs: u64,
    /// Blocks made by `realloc` of a block made by `realloc`.
    pub next_reallocs: u64,
    /// Freed blocks by lifetime: below each of [`LIFETIME_CLASSES_MS`], then the rest.
    pub lifetimes: [u64; LIFETIME_CLASSES_MS.len() + 1],
    /// Sum of the lifetimes of freed blocks.
    pub lifetime_ms: u64,
    /// Change of live bytes in each of [`POINTS`] equal parts of the recording.
    pub changes: [i64; POINTS],
}

/// Counts of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadStatistics {
    /// Blocks it allocated.
    pub allocs: u64,
    /// Bytes it allocated.
    pub alloc_bytes: u64,
    /// Blocks it freed, of all allocating threads.
    pub frees: u64,
}

/// Sums over a recording, or over some of its frames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// By site number.
    pub sites: Vec<SiteStatistics>,
    /// By thread number.
    pub threads: Vec<ThreadStatistics>,
    /// All blocks by size: class n has sizes of n bits.
    pub sizes: Vec<Count>,
    /// Events the program could not record.
    pub gap_events: u64,
    /// Frees of blocks that were never seen to be allocated.
    pub unknown_frees: u64,
    /// Frees that were missed and noticed when the address was reused.
    pub missed_frees: u64,
    /// First millisecond, and the one after the last: [`POINTS`] equal parts divide this time.
    pub span_ms: (u64, u64),
}

/// Threads beyond this number are summed up in the last row: a bound against hostile files.
const MOST_THREADS: usize = 1 << 16;

impl Statistics {
    /// Sums up a recording on `jobs` threads.
    ///
    /// # Errors
    /// At the first damaged frame.
    pub fn read<S: RecordingSource + Sync>(
        recording: &Recording<S>,
        tables: &Tables,
        jobs: usize,
    ) -> Result<Self, Damage> {
        let shares = recording.shares(0..recording.frames().len(), jobs);
        let mut parts = read_shares(shares, |share| Self::of(recording, tables, share))?.into_iter();
        let mut sums = parts.next().unwrap_or_default();
        parts.for_each(|part| sums.merge(&part));
        sums.span_ms = recording.span_ms();
        Ok(sums)
    }

    fn of<S: RecordingSource>(
        recording: &Recording<S>,
        tables: &Tables,
        frames: Range<usize>,
    ) -> Result<Self, Damage> {
        let mut sums = Self {
            sites: vec![SiteStatistics::default(); tables.sites.len()],
            sizes: vec![Count::default(); SIZE_CLASSES],
            ..Self::default()
        };
        let span = recording.span_ms();
        recording.visit(frames, tables, |at| {
            sums.add(at.thread, &at.entry, point_of(at.ms, span));
            ControlFlow::Continue(())
        })?;
        Ok(sums)
    }

    fn add(&mut self, thread: u32, entry: &Entry, point: usize) {
        match *entry {
            Entry::Alloc { block, kind } => self.alloc(thread, block, kind, point),
            Entry::Temporary { block, kind } => {
                self.alloc(thread, block, kind, point);
                self.thread(thread).frees += 1;
                self.free(block, Age::INSTANT, point);
                self.sites[block.site as usize].temporary += 1;
            }
            Entry::Free { block, age } => {
                self.thread(thread).frees += 1;
                self.free(block, age, point);
            }
            Entry::MissedFree { block, age } => {
                self.missed_frees += 1;
                self.free(block, age, point);
            }
            Entry::Gap(events) => self.gap_events = self.gap_events.saturating_add(events),
            Entry::UnknownFree(blocks) => self.unknown_frees = self.unknown_frees.saturating_add(blocks),
            Entry::Tick(_) | Entry::Thread(_) | Entry::Mark(_) => {}
        }
    }

    fn alloc(&mut self, thread: u32, block: SiteBlock, kind: AllocKind, point: usize) {
        let sums = self.thread(thread);
        sums.allocs += 1;
        sums.alloc_bytes = sums.alloc_bytes.wrapping_add(block.size);
        self.sizes[size_class(block.size)].alloc(block.size);
        self.sites[block.site as usize].alloc(block.size, kind, point);
    }

    fn free(&mut self, block: SiteBlock, age: Age, point: usize) {
        self.sizes[size_class(block.size)].free(block.size);
        self.sites[block.site as usize].free(block.size, age, point);
    }

    fn thread(&mut self, thread: u32) -> &mut ThreadStatistics {
        let index = (thread as usize).min(MOST_THREADS);
        if index >= self.threads.len() {
            self.threads.resize(index + 1, ThreadStatistics::default());
        }
        &mut self.threads[index]
    }

    /// Adds the sums of other frames of the same recording.
    fn merge(&mut self, other: &Self) {
        for (own, more) in self.sites.iter_mut().zip(&other.sites) {
            own.merge(more);
        }
        for (own, more) in self.sizes.iter_mut().zip(&other.sizes) {
            own.add(more);
        }
        for (number, more) in other.threads.iter().enumerate() {
            let own = self.thread(number as u32);
            own.allocs += more.allocs;
            own.alloc_bytes = own.alloc_bytes.wrapping_add(more.alloc_bytes);
            own.frees += more.frees;
        }
        self.gap_events = self.gap_events.saturating_add(other.gap_events);
        self.unknown_frees = self.unknown_frees.saturating_add(other.unknown_frees);
        self.missed_frees += other.missed_frees;
    }
}

/// The class of a size: the number of its bits.
fn size_class(size: u64) -> usize {
    (u64::BITS - size.leading_zeros()) as usize
}

/// Which of [`POINTS`] equal parts of `span` a millisecond lies in.
fn point_of(ms: u64, (first, end): (u64, u64)) -> usize {
    let length = (end - first).max(1);
    let point = ms.saturating_sub(first).saturating_mul(POINTS as u64) / length;
    (point as usize).min(POINTS - 1)
}

impl SiteStatistics {
    fn alloc(&mut self, size: u64, kind: AllocKind, point: usize) {
        self.count.alloc(size);
        self.changes[point] = self.changes[point].wrapping_add_unsigned(size);
        match kind {
            AllocKind::Fresh => {}
            AllocKind::FirstRealloc => self.first_reallocs += 1,
            AllocKind::NextRealloc => self.next_reallocs += 1,
        }
    }

    fn free(&mut self, size: u64, age: Age, point: usize) {
        let age_ms = age.milliseconds();
        self.count.free(size);
        self.changes[point] = self.changes[point].wrapping_sub_unsigned(size);
        self.lifetimes[LIFETIME_CLASSES_MS.partition_point(|end| *end <= age_ms)] += 1;
        self.lifetime_ms = self.lifetime_ms.saturating_add(age_ms);
    }

    pub(super) fn merge(&mut self, more: &Self) {
        self.count.add(&more.count);
        self.temporary += more.temporary;
        self.first_reallocs += more.first_reallocs;
        self.next_reallocs += more.next_reallocs;
        self.lifetime_ms = self.lifetime_ms.saturating_add(more.lifetime_ms);
        for (own, more) in self.lifetimes.iter_mut().zip(more.lifetimes) {
            *own += more;
        }
        for (own, more) in self.changes.iter_mut().zip(more.changes) {
            *own = own.wrapping_add(more);
        }
    }
}
