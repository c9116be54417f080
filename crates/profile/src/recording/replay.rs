//! Counts at a point of the event stream: from the last checkpoint before it, entry by entry.
//!
//! Times are half-open: the heap at T is the result of all events before millisecond T. The heap at
//! a mark of the program is the result of all events before the mark.

mod between;
mod visit;

use std::ops::{ControlFlow, Range};

use heapwise_format::recording::{Entry, FrameKind};

use super::parallel_read::read_shares;
use super::reader::Placed;
use super::size_counts::BlockCounts;
use super::{Counts, Damage, Recording, RecordingSource, SizeCounts, Tables, Timeline};
pub(super) use visit::EntryAt;

/// A point of the event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Before the first event of this millisecond or of a later one.
    Time(u64),
    /// Where the program set the mark of this number.
    Mark(u64),
}

impl Point {
    /// Whether an entry comes before it.
    #[inline]
    fn is_behind(self, at: &EntryAt) -> bool {
        match self {
            Point::Time(ms) => at.ms < ms,
            Point::Mark(number) => at.marks < number,
        }
    }

    /// Whether a checkpoint sums up only entries before it.
    fn is_behind_checkpoint(self, frame: &Placed) -> bool {
        match self {
            Point::Time(ms) => frame.header.first < ms,
            Point::Mark(number) => frame.header.marks() < number,
        }
    }
}

/// A point of a recording whose heap is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointInTime {
    /// After every event.
    End,
    /// When live bytes were highest.
    Peak,
    /// At a point of the event stream.
    At(Point),
    /// When live bytes were highest within a range of time.
    Highest(TimeRange),
}

/// A range of time, `from_ms` included, `to_ms` not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// First millisecond.
    pub from_ms: u64,
    /// One past the last.
    pub to_ms: u64,
}

/// Where a replay stops.
#[derive(Debug, Clone, Copy)]
enum Stop {
    At(Point),
    /// Within the range, as soon as live bytes reach this number; at its end in any case.
    Live {
        bytes: u64,
        range: TimeRange,
    },
}

impl Stop {
    /// Entries before this point do not stop a replay.
    fn start(self) -> Point {
        match self {
            Stop::At(point) => point,
            Stop::Live { range, .. } => Point::Time(range.from_ms),
        }
    }
}

impl<S: RecordingSource> Recording<S> {
    /// Counts at a point in time, and the millisecond it turned out to be; read on `jobs` threads.
    ///
    /// # Errors
    /// At the first damaged frame that had to be read.
    pub fn counts_at(&self, tables: &Tables, point: PointInTime, jobs: usize) -> Result<(Counts, u64), Damage>
    where
        S: Sync,
    {
        let stop = self.stop_at(point)?;
        let (start, counts) = self.checkpoint_before(tables, stop.start())?;
        let live_bytes = counts.live_bytes();
        self.replay(tables, stop, jobs, (start, counts, live_bytes), || Counts::new(tables.sites.len()))
    }

    /// The same by site and size. Checkpoints do not have sizes, so all frames up to there are
    /// read.
    ///
    /// # Errors
    /// At the first damaged frame that had to be read.
    pub fn sizes_at(
        &self,
        tables: &Tables,
        point: PointInTime,
        jobs: usize,
    ) -> Result<(SizeCounts, u64), Damage>
    where
        S: Sync,
    {
        let stop = self.stop_at(point)?;
        let before = self.base(tables)?;
        let live_bytes = before.live_bytes();
        let counts = SizeCounts::starting_with(before);
        self.replay(tables, stop, jobs, (0, counts, live_bytes), SizeCounts::default)
    }

    fn stop_at(&self, point: PointInTime) -> Result<Stop, Damage> {
        let everything = TimeRange { from_ms: 0, to_ms: u64::MAX };
        Ok(match point {
            PointInTime::End => Stop::At(Point::Time(u64::MAX)),
            PointInTime::At(point) => Stop::At(point),
            PointInTime::Peak => self.highest(everything)?,
            PointInTime::Highest(range) => self.highest(range)?,
        })
    }

    /// The stop at the highest live bytes within a range of time, by the timeline.
    fn highest(&self, range: TimeRange) -> Result<Stop, Damage> {
        let row_ms = Timeline::step_ms(0);
        let timeline = Timeline::read(self, row_ms)?;
        let within = |start_ms: u64| start_ms + row_ms > range.from_ms && start_ms < range.to_ms;
        let best = timeline.steps.iter().rev().filter(|step| within(step.start_ms));
        Ok(match best.max_by_key(|step| step.max_live_bytes) {
            Some(step) if step.allocs > 0 => Stop::Live {
                bytes: step.max_live_bytes,
                range: TimeRange { from_ms: step.start_ms, to_ms: step.start_ms + row_ms },
            },
            // Nothing was allocated in the best row: it is highest at its start.
            Some(step) => Stop::At(Point::Time(step.start_ms.max(range.from_ms))),
            None => Stop::At(Point::Time(range.to_ms)),
        })
    }

    /// Counts before the first event: not empty in the later files of a rotated recording.
    ///
    /// # Errors
    /// When that frame is damaged.
    pub fn base(&self, tables: &Tables) -> Result<Counts, Damage> {
        match self.base_checkpoint() {
            Some(number) => self.checkpoint(tables, number),
            None => Ok(Counts::new(tables.sites.len())),
        }
    }

    /// The checkpoint that a rotated recording begins with: it sums up what was before all its
    /// events.
    fn base_checkpoint(&self) -> Option<usize> {
        let kinds = [FrameKind::Checkpoint, FrameKind::Events];
        let first = self.frames().iter().position(|frame| kinds.contains(&frame.header.kind));
        first.filter(|first| self.frames()[*first].header.kind == FrameKind::Checkpoint)
    }

    fn checkpoint(&self, tables: &Tables, number: usize) -> Result<Counts, Damage> {
        let (payload, sites) = (self.payload(number)?, tables.sites.len());
        let counts = if self.is_version3(&self.frames()[number]) {
            tables.buckets().counts(&payload, sites)
        } else {
            Counts::decode(&payload, sites)
        };
        counts.ok_or_else(|| self.damaged(number))
    }

    /// The frame after the last checkpoint before a point and its counts; the start when there is
    /// none.
    fn checkpoint_before(&self, tables: &Tables, point: Point) -> Result<(usize, Counts), Damage> {
        let is_before =
            |frame: &Placed| frame.header.kind == FrameKind::Checkpoint && point.is_behind_checkpoint(frame);
        match self.frames().iter().rposition(is_before).or_else(|| self.base_checkpoint()) {
            Some(number) => Ok((number + 1, self.checkpoint(tables, number)?)),
            None => Ok((0, Counts::new(tables.sites.len()))),
        }
    }

    /// The first frame from `first` on that has to be read entry by entry to stop at `point`.
    fn first_partial(&self, first: usize, point: Point) -> usize {
        let frames = &self.frames()[first..];
        let is_events = |frame: &&Placed| frame.header.kind == FrameKind::Events;
        let whole = match point {
            Point::Time(ms) => frames.iter().position(|frame| is_events(&frame) && frame.header.last >= ms),
            // A frame stores how many marks were set before it, so the mark is in the last frame
            // before it.
            Point::Mark(number) => {
                frames.iter().rposition(|frame| is_events(&frame) && frame.header.marks() < number)
            }
        };
        first + whole.unwrap_or(if matches!(point, Point::Time(_)) { frames.len() } else { 0 })
    }

    /// Replays the frames from `start` on, where `counts` and `live_bytes` are known.
    fn replay<C: BlockCounts>(
        &self,
        tables: &Tables,
        stop: Stop,
        jobs: usize,
        (start, mut counts, mut live_bytes): (usize, C, u64),
        empty: impl Fn() -> C + Sync,
    ) -> Result<(C, u64), Damage>
    where
        S: Sync,
    {
        // Frames that end before anything can stop the replay are sums, in any order.
        let partial = self.first_partial(start, stop.start());
        let shares = self.shares(start..partial, jobs);
        for (part, change) in read_shares(shares, |share| self.sums_of(tables, share, empty()))? {
            counts.add_part(part);
            live_bytes = live_bytes.wrapping_add(change);
        }
        let mut now_ms = match stop.start() {
            Point::Time(ms) => ms,
            Point::Mark(_) => self.frames().get(partial).map_or(0, |frame| frame.header.first),
        };
        self.visit(partial.., tables, |at| {
            let (end, wanted) = match stop {
                Stop::At(point) => (point, None),
                Stop::Live { bytes, range } => {
                    (Point::Time(range.to_ms), (at.ms >= range.from_ms).then_some(bytes))
                }
            };
            if !end.is_behind(&at) {
                return ControlFlow::Break(());
            }
            now_ms = at.ms;
            count(&mut counts, &mut live_bytes, &at.entry, wanted)
        })?;
        Ok((counts, now_ms))
    }

    /// Counts of all events of some frames, and by how much they change live bytes.
    fn sums_of<C: BlockCounts>(
        &self,
        tables: &Tables,
        frames: Range<usize>,
        mut counts: C,
    ) -> Result<(C, u64), Damage> {
        let mut change = 0u64;
        self.visit(frames, tables, |at| count(&mut counts, &mut change, &at.entry, None))?;
        Ok((counts, change))
    }
}

/// Counts one event; breaks where live bytes reach `wanted`.
#[inline(always)]
fn count<C: BlockCounts>(
    counts: &mut C,
    live_bytes: &mut u64,
    entry: &Entry,
    wanted: Option<u64>,
) -> ControlFlow<()> {
    match *entry {
        Entry::Alloc { block, .. } => {
            counts.of(block).alloc(block.size);
            *live_bytes = live_bytes.wrapping_add(block.size);
            if wanted == Some(*live_bytes) {
                return ControlFlow::Break(());
            }
        }
        // Live bytes may be highest at the allocation; its block is then still there.
        Entry::Temporary { block, .. } if wanted == Some(live_bytes.wrapping_add(block.size)) => {
            counts.of(block).alloc(block.size);
            return ControlFlow::Break(());
        }
        Entry::Temporary { block, .. } => counts.of(block).alloc_and_free(block.size),
        Entry::Free { block, .. } | Entry::MissedFree { block, .. } => {
            counts.of(block).free(block.size);
            *live_bytes = live_bytes.wrapping_sub(block.size);
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests;
