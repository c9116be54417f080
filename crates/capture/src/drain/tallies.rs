//! Reads the records of tallies when an event names them first: each is complete before such an
//! event can be read.

use heapwise_format::segment::{Layout, Section, SectionKind, SegmentSource, Tally};

use crate::segments::SegmentFile;

/// Where the records are, and those read last.
#[derive(Debug)]
pub(super) struct Tallies {
    section: Section,
    first: u64,
    records: Vec<u8>,
}

/// Records read at a time: new ones are mostly named in their order.
const AT_ONCE: u64 = 256;

impl Tallies {
    /// Those of a segment.
    pub(super) fn new(layout: &Layout) -> Self {
        Self { section: layout.section(SectionKind::Tallies), first: 0, records: Vec::new() }
    }

    /// The record of a tally, of which only node, thread, rate and period count; `None` when the
    /// segment has none.
    pub(super) fn read(&mut self, segment: &SegmentFile, tally: u32) -> Option<Tally> {
        let tally = u64::from(tally);
        // Records that were read before an event named them may not have been complete.
        if let Some(record) = self.at_hand(tally).filter(|record| record.node != 0) {
            return Some(record);
        }
        let count = AT_ONCE.min(self.section.capacity.checked_sub(tally)?);
        self.records.resize((count * self.section.record_bytes) as usize, 0);
        let got = segment.read_at(self.section.record_offset(tally)?, &mut self.records);
        self.records.truncate(got);
        self.first = tally;
        self.at_hand(tally)
    }

    fn at_hand(&self, tally: u64) -> Option<Tally> {
        let at = usize::try_from(tally.checked_sub(self.first)? * self.section.record_bytes).ok()?;
        Tally::decode(self.records.get(at..)?)
    }
}
