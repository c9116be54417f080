//! One pass over all entries: what each bucket's blocks did over the whole recording.
//!
//! Everything here is a sum over frames, so frames are read on as many threads as there are.

use std::ops::{ControlFlow, Range};

use heapwise_format::recording::{Age, AllocKind, Entry, FrameKind};

use super::share::read_shares;
use super::{Catalog, Counts, Damage, Recording, RecordingSource};

/// Upper ends of the classes of lifetimes in milliseconds; the last class is open.
pub const LIFETIME_CLASSES_MS: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// Points in time at which live blocks are known per bucket.
pub const POINTS: usize = 16;

/// What the blocks of one bucket did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketStatistics {
    /// Blocks allocated.
    pub allocs: u64,
    /// Blocks freed.
    pub frees: u64,
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
    /// Change of live blocks in each of [`POINTS`] equal parts of the recording.
    pub changes: [i64; POINTS],
}

/// What one thread did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadStatistics {
    /// Blocks it allocated.
    pub allocs: u64,
    /// Bytes it allocated.
    pub alloc_bytes: u64,
    /// Blocks it freed, whoever allocated them.
    pub frees: u64,
}

/// Sums over a recording, or over some of its frames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// By bucket number.
    pub buckets: Vec<BucketStatistics>,
    /// By thread number.
    pub threads: Vec<ThreadStatistics>,
    /// Events the program could not record.
    pub gap_events: u64,
    /// Frees of blocks that were never seen to be allocated.
    pub unknown_frees: u64,
    /// Frees that were missed and noticed when the address was reused.
    pub missed_frees: u64,
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
        catalog: &Catalog,
        jobs: usize,
    ) -> Result<Self, Damage> {
        let shares = recording.shares(0..recording.frames().len(), jobs);
        let mut parts = read_shares(shares, |share| Self::of(recording, catalog, share))?.into_iter();
        let mut sums = parts.next().unwrap_or_default();
        parts.for_each(|part| sums.merge(&part));
        Ok(sums)
    }

    fn of<S: RecordingSource>(
        recording: &Recording<S>,
        catalog: &Catalog,
        frames: Range<usize>,
    ) -> Result<Self, Damage> {
        let mut sums =
            Self { buckets: vec![BucketStatistics::default(); catalog.buckets.len()], ..Self::default() };
        let span = recording.span_ms();
        recording.visit(frames, catalog.buckets.len(), |at| {
            let point = point_of(at.ms, span);
            match at.entry {
                Entry::Alloc { bucket, kind } => {
                    let size = catalog.buckets[bucket as usize].size;
                    let thread = sums.thread(at.thread);
                    thread.allocs += 1;
                    thread.alloc_bytes += size;
                    sums.buckets[bucket as usize].alloc(kind, point);
                }
                Entry::Temporary { bucket, kind } => {
                    let size = catalog.buckets[bucket as usize].size;
                    let thread = sums.thread(at.thread);
                    thread.allocs += 1;
                    thread.alloc_bytes += size;
                    thread.frees += 1;
                    let row = &mut sums.buckets[bucket as usize];
                    row.alloc(kind, point);
                    row.free(Age::INSTANT, point);
                    row.temporary += 1;
                }
                Entry::Free { bucket, age } => {
                    sums.thread(at.thread).frees += 1;
                    sums.buckets[bucket as usize].free(age, point);
                }
                Entry::MissedFree { bucket, age } => {
                    sums.missed_frees += 1;
                    sums.buckets[bucket as usize].free(age, point);
                }
                Entry::Gap(events) => sums.gap_events += events,
                Entry::UnknownFree(blocks) => sums.unknown_frees += blocks,
                Entry::Tick(_) | Entry::Thread(_) => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(sums)
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
        for (own, more) in self.buckets.iter_mut().zip(&other.buckets) {
            own.merge(more);
        }
        for (number, more) in other.threads.iter().enumerate() {
            let own = self.thread(number as u32);
            own.allocs += more.allocs;
            own.alloc_bytes += more.alloc_bytes;
            own.frees += more.frees;
        }
        self.gap_events += other.gap_events;
        self.unknown_frees += other.unknown_frees;
        self.missed_frees += other.missed_frees;
    }
}

impl<S: RecordingSource> Recording<S> {
    /// What was there before the first event: not empty in the later files of a rotated recording.
    ///
    /// # Errors
    /// When that frame is damaged.
    pub fn base(&self, catalog: &Catalog) -> Result<Counts, Damage> {
        let kinds = [FrameKind::Checkpoint, FrameKind::Events];
        let first = self.frames().iter().position(|frame| kinds.contains(&frame.header.kind));
        match first.filter(|first| self.frames()[*first].header.kind == FrameKind::Checkpoint) {
            Some(number) => Counts::decode(&self.payload(number)?, catalog.buckets.len())
                .ok_or_else(|| self.damaged(number)),
            None => Ok(Counts::new(catalog.buckets.len())),
        }
    }
}

/// Which of [`POINTS`] equal parts of `span` a millisecond lies in.
fn point_of(ms: u64, (first, end): (u64, u64)) -> usize {
    let length = (end - first).max(1);
    let point = ms.saturating_sub(first).saturating_mul(POINTS as u64) / length;
    (point as usize).min(POINTS - 1)
}

impl BucketStatistics {
    fn alloc(&mut self, kind: AllocKind, point: usize) {
        self.allocs += 1;
        self.changes[point] += 1;
        match kind {
            AllocKind::Fresh => {}
            AllocKind::FirstRealloc => self.first_reallocs += 1,
            AllocKind::NextRealloc => self.next_reallocs += 1,
        }
    }

    fn free(&mut self, age: Age, point: usize) {
        let age_ms = age.milliseconds();
        self.frees += 1;
        self.changes[point] -= 1;
        self.lifetimes[LIFETIME_CLASSES_MS.partition_point(|end| *end <= age_ms)] += 1;
        self.lifetime_ms = self.lifetime_ms.saturating_add(age_ms);
    }

    pub(super) fn merge(&mut self, more: &Self) {
        self.allocs += more.allocs;
        self.frees += more.frees;
        self.temporary += more.temporary;
        self.first_reallocs += more.first_reallocs;
        self.next_reallocs += more.next_reallocs;
        self.lifetime_ms = self.lifetime_ms.saturating_add(more.lifetime_ms);
        for (own, more) in self.lifetimes.iter_mut().zip(more.lifetimes) {
            *own += more;
        }
        for (own, more) in self.changes.iter_mut().zip(more.changes) {
            *own += more;
        }
    }
}
