//! Whether a text profile is complete: the totals of its header against the sums of its records.

use super::unbias::{Counts, Scaling};
use crate::Values;
use crate::model::{Cut, CutReason, CutShare, Position};

/// Rounding of a record's counts that is not a missing record. jemalloc rounds the numbers of
/// each record of a sampled profile to integers.
const ROUNDING: f64 = 0.05;

/// Totals that the header states, and sums of the records that were read.
#[derive(Debug)]
pub(super) struct Completeness {
    scaling: Scaling,
    stated: Option<Counts>,
    read: Counts,
    /// Sum of the estimates of all records.
    estimate: Values,
}

impl Completeness {
    pub(super) fn new(scaling: Scaling) -> Self {
        Self { scaling, stated: None, read: Counts::default(), estimate: Values::default() }
    }

    /// Takes the totals of the header.
    pub(super) fn state(&mut self, totals: Counts) {
        self.stated = Some(totals);
    }

    /// Adds the totals of a record.
    pub(super) fn add(&mut self, record: Counts) {
        self.read = Counts {
            inuse_objects: self.read.inuse_objects.saturating_add(record.inuse_objects),
            inuse_bytes: self.read.inuse_bytes.saturating_add(record.inuse_bytes),
            alloc_objects: self.read.alloc_objects.saturating_add(record.alloc_objects),
            alloc_bytes: self.read.alloc_bytes.saturating_add(record.alloc_bytes),
        };
        self.estimate += self.scaling.unbias(record).values;
    }

    /// Whether the numbers of the records add up to those of the header.
    pub(super) fn is_reached(&self) -> bool {
        self.stated.is_some_and(|stated| {
            self.read.inuse_bytes >= stated.inuse_bytes && self.read.alloc_bytes >= stated.alloc_bytes
        })
    }

    /// Whether a record may be missing. Newer versions of jemalloc write numbers of samples that
    /// add up only after scaling, and only roughly.
    fn is_short(&self) -> bool {
        let Some(stated) = self.stated.filter(|_| !self.is_reached()) else {
            return false;
        };
        let estimate = self.scaling.unbias(stated).values;
        let is_close = |read: f64, stated: f64| read >= stated * (1.0 - ROUNDING);
        !(self.scaling.is_sampled()
            && is_close(self.estimate.inuse_bytes, estimate.inuse_bytes)
            && is_close(self.estimate.alloc_bytes, estimate.alloc_bytes))
    }

    /// Whether the records have more than another account of the same blocks.
    pub(super) fn exceeds(&self, total: Values) -> bool {
        let exceeds = |records: f64, total: f64| total < records * (1.0 - ROUNDING);
        exceeds(self.estimate.inuse_bytes, total.inuse_bytes)
            || exceeds(self.estimate.alloc_bytes, total.alloc_bytes)
    }

    /// The cut of a file that ends early at a line.
    pub(super) fn cut(&self, line: u64) -> Cut {
        Cut { at: Position::Line(line), reason: CutReason::EndsEarly, share: self.share() }
    }

    /// The cut of a file with an end whose records add up to less than its header states; the
    /// records end at a line.
    pub(super) fn shortfall(&self, line: u64) -> Option<Cut> {
        self.is_short().then(|| Cut {
            at: Position::Line(line),
            reason: CutReason::LessThanStated,
            share: self.share(),
        })
    }

    /// In bytes in use, or in bytes allocated when nothing is in use.
    fn share(&self) -> Option<CutShare> {
        let stated = self.scaling.unbias(self.stated?).values;
        let (read, stated) = match stated.inuse_bytes > 0.0 {
            true => (self.estimate.inuse_bytes, stated.inuse_bytes),
            false => (self.estimate.alloc_bytes, stated.alloc_bytes),
        };
        let stated_bytes = stated.round() as u64;
        let read_bytes =
            if self.is_reached() { stated_bytes } else { (read.round() as u64).min(stated_bytes) };
        Some(CutShare { read_bytes, stated_bytes })
    }
}
