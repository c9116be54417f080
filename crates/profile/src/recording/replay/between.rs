//! Blocks allocated between two points and not freed between them.

use std::ops::{ControlFlow, Range};

use heapwise_format::recording::{Entry, FrameKind, TIMELINE_ROW_MS};

use super::Point;
use crate::recording::parallel_read::read_shares;
use crate::recording::size_counts::BlockCounts;
use crate::recording::{Counts, Damage, Recording, RecordingSource, SizeCounts, Tables};

/// Two points of the event stream, and the time of the first block after the first of them.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: Point,
    to: Point,
    /// Blocks that were allocated in this millisecond or later are from within.
    born_ms: u64,
}

impl Point {
    /// The start of the row of the timeline that a time lies in: allocation times are known to the
    /// row.
    #[must_use]
    pub fn to_row(self) -> Self {
        match self {
            Point::Time(ms) => Point::Time(ms - ms % TIMELINE_ROW_MS),
            Point::Mark(number) => Point::Mark(number),
        }
    }
}

impl<S: RecordingSource> Recording<S> {
    /// Counts of what was allocated from `from` on and not freed before `to`. If `from` is a time,
    /// it begins with its row of the timeline; marks are exact.
    ///
    /// # Errors
    /// At the first damaged frame that had to be read.
    pub fn counts_between(
        &self,
        tables: &Tables,
        from: Point,
        to: Point,
        jobs: usize,
    ) -> Result<Counts, Damage>
    where
        S: Sync,
    {
        let parts = self.between(tables, (from, to), jobs, || Counts::new(tables.sites.len()))?;
        Ok(Counts::sum(parts, tables.sites.len()))
    }

    /// The same by site and size.
    ///
    /// # Errors
    /// At the first damaged frame that had to be read.
    pub fn sizes_between(
        &self,
        tables: &Tables,
        from: Point,
        to: Point,
        jobs: usize,
    ) -> Result<SizeCounts, Damage>
    where
        S: Sync,
    {
        let parts = self.between(tables, (from, to), jobs, SizeCounts::default)?.into_iter();
        Ok(parts.fold(SizeCounts::default(), |mut sum, part| {
            sum.add_part(part);
            sum
        }))
    }

    /// The counts of shares of the frames.
    fn between<C: BlockCounts>(
        &self,
        tables: &Tables,
        (from, to): (Point, Point),
        jobs: usize,
        empty: impl Fn() -> C + Sync,
    ) -> Result<Vec<C>, Damage>
    where
        S: Sync,
    {
        let from = from.to_row();
        let born_ms = match from {
            Point::Time(ms) => Some(ms),
            Point::Mark(number) => self.mark_ms(tables, number)?,
        };
        // Nothing happened after a mark that is not in the stream.
        let Some(born_ms) = born_ms else { return Ok(Vec::new()) };
        let (start, _) = self.checkpoint_before(tables, from)?;
        let span = Span { from, to, born_ms };
        let shares = self.shares(start..self.frames().len(), jobs);
        read_shares(shares, |share| self.counts_of(tables, span, share, empty()))
    }

    /// Counts of the events within `span` of some frames.
    fn counts_of<C: BlockCounts>(
        &self,
        tables: &Tables,
        span: Span,
        frames: Range<usize>,
        mut counts: C,
    ) -> Result<C, Damage> {
        self.visit(frames, tables, |at| {
            if !span.to.is_behind(&at) {
                return ControlFlow::Break(());
            }
            if span.from.is_behind(&at) {
                return ControlFlow::Continue(());
            }
            match at.entry {
                Entry::Alloc { block, .. } => counts.of(block).alloc(block.size),
                Entry::Temporary { block, .. } => counts.of(block).alloc_and_free(block.size),
                Entry::Free { block, age } | Entry::MissedFree { block, age }
                    if age.born_ms(at.ms) >= span.born_ms =>
                {
                    counts.of(block).free(block.size);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(counts)
    }

    /// The millisecond of the first event behind a mark of the program; `None` when there is none.
    fn mark_ms(&self, tables: &Tables, number: u64) -> Result<Option<u64>, Damage> {
        let is_before =
            |frame: &super::Placed| frame.header.kind == FrameKind::Events && frame.header.marks() < number;
        let first = self.frames().iter().rposition(is_before).unwrap_or(0);
        let mut found = None;
        self.visit(first.., tables, |at| {
            if at.marks < number {
                return ControlFlow::Continue(());
            }
            found = Some(at.ms);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}
