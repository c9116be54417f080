//! Counts at an instant: from the last checkpoint before it, entry by entry.
//!
//! Times are half-open: the heap at T is what all events before millisecond T made of it.

use std::ops::{ControlFlow, Range, RangeBounds};

use heapwise_format::recording::{Entries, Entry, FrameKind, MOMENT_MS};

use super::archive::Placed;
use super::share::read_shares;
use super::{Catalog, Counts, Damage, Recording, RecordingSource, Timeline};

/// A moment of a recording whose heap is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// After every event.
    End,
    /// When live bytes were highest.
    Peak,
    /// Before millisecond `0`.
    Before(u64),
    /// When live bytes were highest within the window.
    Highest(Window),
}

/// A stretch of time, `from_ms` included, `to_ms` not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First millisecond.
    pub from_ms: u64,
    /// One past the last.
    pub to_ms: u64,
}

impl Window {
    /// The start of the slice it begins in.
    #[must_use]
    pub fn slice_ms(&self) -> u64 {
        self.from_ms - self.from_ms % MOMENT_MS
    }
}

/// Where a replay stops.
#[derive(Debug, Clone, Copy)]
enum Stop {
    /// Before the first event at this millisecond or later.
    Time(u64),
    /// Within the window, as soon as live bytes reach this number; at its end in any case.
    Live { bytes: u64, window: Window },
}

/// An entry with its time and thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryAt {
    pub ms: u64,
    pub thread: u32,
    pub entry: Entry,
}

impl<S: RecordingSource> Recording<S> {
    /// Counts at `moment`, and the millisecond it turned out to be; read on `jobs` threads.
    ///
    /// # Errors
    /// At the first damaged frame that had to be read.
    pub fn counts_at(&self, catalog: &Catalog, moment: Moment, jobs: usize) -> Result<(Counts, u64), Damage>
    where
        S: Sync,
    {
        let everything = Window { from_ms: 0, to_ms: u64::MAX };
        let stop = match moment {
            Moment::End => Stop::Time(u64::MAX),
            Moment::Before(ms) => Stop::Time(ms),
            Moment::Peak => self.highest(everything)?,
            Moment::Highest(window) => self.highest(window)?,
        };
        self.replay(catalog, stop, jobs)
    }

    /// Counts of what was allocated within `window` and not freed within it. It begins with the slice that
    /// its first millisecond lies in: births are known to the slice.
    ///
    /// # Errors
    /// At the first damaged frame that had to be read.
    pub fn counts_between(&self, catalog: &Catalog, window: Window, jobs: usize) -> Result<Counts, Damage>
    where
        S: Sync,
    {
        let (start, _) = self.checkpoint_before(catalog, window.slice_ms())?;
        let shares = self.shares(start..self.frames().len(), jobs);
        let parts = read_shares(shares, |share| self.counts_of(catalog, window, share))?;
        Ok(Counts::sum(parts, catalog.buckets.len()))
    }

    /// The same of some frames.
    fn counts_of(&self, catalog: &Catalog, window: Window, frames: Range<usize>) -> Result<Counts, Damage> {
        let mut counts = Counts::new(catalog.buckets.len());
        let from_ms = window.slice_ms();
        self.visit(frames, catalog.buckets.len(), |at| {
            if at.ms >= window.to_ms {
                return ControlFlow::Break(());
            }
            match at.entry {
                Entry::Alloc { bucket, .. } if at.ms >= from_ms => counts.row(bucket).allocs += 1,
                Entry::Temporary { bucket, .. } if at.ms >= from_ms => counts.row(bucket).pass(),
                Entry::Free { bucket, age } | Entry::MissedFree { bucket, age }
                    if age.born_slice_ms(at.ms) >= from_ms =>
                {
                    counts.row(bucket).frees += 1;
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(counts)
    }

    /// The stop at the highest live bytes within a window, by the timeline.
    fn highest(&self, window: Window) -> Result<Stop, Damage> {
        let slice_ms = Timeline::step_ms(0);
        let timeline = Timeline::read(self, slice_ms)?;
        let within = |start_ms: u64| start_ms + slice_ms > window.from_ms && start_ms < window.to_ms;
        let best = timeline.steps.iter().rev().filter(|step| within(step.start_ms));
        Ok(match best.max_by_key(|step| step.max_live_bytes) {
            Some(step) if step.allocs > 0 => Stop::Live {
                bytes: step.max_live_bytes,
                window: Window { from_ms: step.start_ms, to_ms: step.start_ms + slice_ms },
            },
            // Nothing was allocated at the best time: its highest is its beginning.
            Some(step) => Stop::Time(step.start_ms.max(window.from_ms)),
            None => Stop::Time(window.to_ms),
        })
    }

    /// The frame after the last checkpoint before `ms` and its counts; the start when there is none.
    fn checkpoint_before(&self, catalog: &Catalog, ms: u64) -> Result<(usize, Counts), Damage> {
        let is_checkpoint = |number: &usize| self.frames()[*number].header.kind == FrameKind::Checkpoint;
        let is_before = |number: &usize| self.frames()[*number].header.first < ms;
        let mut checkpoints = (0..self.frames().len()).filter(is_checkpoint);
        let first_events = self.frames().iter().position(|frame| frame.header.kind == FrameKind::Events);
        // A rotated recording begins with a checkpoint, which sums up what was before all its events.
        let base =
            checkpoints.clone().next().filter(|first| first_events.is_none_or(|events| *first < events));
        let Some(number) = checkpoints.rfind(is_before).or(base) else {
            return Ok((0, Counts::new(catalog.buckets.len())));
        };
        let counts = Counts::decode(&self.payload(number)?, catalog.buckets.len());
        Ok((number + 1, counts.ok_or_else(|| self.damaged(number))?))
    }

    fn replay(&self, catalog: &Catalog, stop: Stop, jobs: usize) -> Result<(Counts, u64), Damage>
    where
        S: Sync,
    {
        let start_ms = match stop {
            Stop::Time(ms) => ms,
            Stop::Live { window, .. } => window.from_ms,
        };
        let (checkpoint, counts) = self.checkpoint_before(catalog, start_ms)?;
        // Frames that end before anything can stop the replay are sums, in any order.
        let is_whole =
            |frame: &Placed| frame.header.kind != FrameKind::Events || frame.header.last < start_ms;
        let start =
            checkpoint + self.frames()[checkpoint..].iter().take_while(|frame| is_whole(frame)).count();
        let shares = self.shares(checkpoint..start, jobs);
        let parts = read_shares(shares, |share| self.sums_of(catalog, share))?;
        let mut counts = Counts::sum(std::iter::once(counts).chain(parts), catalog.buckets.len());
        let mut live_bytes = counts.live_bytes(&catalog.buckets);
        let mut now_ms = start_ms;
        let size = |bucket: u32| catalog.buckets.get(bucket as usize).map_or(0, |bucket| bucket.size);
        self.visit(start.., catalog.buckets.len(), |at| {
            let (end_ms, wanted) = match stop {
                Stop::Time(ms) => (ms, None),
                Stop::Live { bytes, window } => (window.to_ms, (at.ms >= window.from_ms).then_some(bytes)),
            };
            if at.ms >= end_ms {
                return ControlFlow::Break(());
            }
            now_ms = at.ms;
            match at.entry {
                Entry::Alloc { bucket, .. } => {
                    counts.row(bucket).allocs += 1;
                    live_bytes += size(bucket);
                    if wanted == Some(live_bytes) {
                        return ControlFlow::Break(());
                    }
                }
                // The allocation may be the highest moment; its block is then still there.
                Entry::Temporary { bucket, .. } if wanted == Some(live_bytes + size(bucket)) => {
                    counts.row(bucket).allocs += 1;
                    return ControlFlow::Break(());
                }
                Entry::Temporary { bucket, .. } => counts.row(bucket).pass(),
                Entry::Free { bucket, .. } | Entry::MissedFree { bucket, .. } => {
                    counts.row(bucket).frees += 1;
                    live_bytes = live_bytes.saturating_sub(size(bucket));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok((counts, now_ms))
    }

    /// Counts of everything that happened in some frames.
    fn sums_of(&self, catalog: &Catalog, frames: Range<usize>) -> Result<Counts, Damage> {
        let mut counts = Counts::new(catalog.buckets.len());
        self.visit(frames, catalog.buckets.len(), |at| {
            counts.add(&at.entry);
            ControlFlow::Continue(())
        })?;
        Ok(counts)
    }

    /// Hands out the entries of the events frames among `frames`, until `visit` breaks. Every bucket
    /// handed out is below `buckets`.
    pub(super) fn visit(
        &self,
        frames: impl RangeBounds<usize>,
        buckets: usize,
        mut visit: impl FnMut(EntryAt) -> ControlFlow<()>,
    ) -> Result<(), Damage> {
        for (number, frame) in self.frames().iter().enumerate() {
            if !frames.contains(&number) || frame.header.kind != FrameKind::Events {
                continue;
            }
            let payload = self.payload(number)?;
            let mut entries = Entries::new(&payload).ok_or_else(|| self.damaged(number))?;
            let (mut ms, mut thread) = (frame.header.first, frame.header.thread);
            for entry in &mut entries {
                match entry {
                    Entry::Tick(passed) => ms = ms.saturating_add(passed),
                    Entry::Thread(next) => thread = next,
                    Entry::Alloc { bucket, .. }
                    | Entry::Temporary { bucket, .. }
                    | Entry::Free { bucket, .. }
                    | Entry::MissedFree { bucket, .. }
                        if bucket as usize >= buckets =>
                    {
                        return Err(self.damaged(number));
                    }
                    _ => {
                        if visit(EntryAt { ms, thread, entry }).is_break() {
                            return Ok(());
                        }
                    }
                }
            }
            if !entries.is_whole() {
                return Err(self.damaged(number));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
