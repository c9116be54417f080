//! Reading the records of buckets when they are first heard of: each is whole before an event that names it can be read.

use heapwise_format::segment::{Bucket, Layout, Section, SectionKind, SegmentSource};

use crate::segments::SegmentFile;

/// Where the records are, and those read last.
#[derive(Debug)]
pub struct Buckets {
    section: Section,
    first: u64,
    records: Vec<u8>,
}

/// Records read at a time: new ones are mostly heard of in their order.
const AT_ONCE: u64 = 256;

impl Buckets {
    /// Those of a segment.
    pub fn new(layout: &Layout) -> Self {
        Self { section: layout.section(SectionKind::Buckets), first: 0, records: Vec::new() }
    }

    /// The record of a bucket; `None` when the segment has none.
    pub fn read(&mut self, segment: &SegmentFile, bucket: u32) -> Option<Bucket> {
        let bucket = u64::from(bucket);
        // Of records that were read before they were heard of, some may not have been whole. A size of 0 is a size, too.
        let is_whole = |record: &Bucket| record.node != 0 && record.size != 0;
        if let Some(record) = self.at_hand(bucket).filter(is_whole) {
            return Some(record);
        }
        let count = AT_ONCE.min(self.section.capacity.checked_sub(bucket)?);
        self.records.resize((count * self.section.record_bytes) as usize, 0);
        let got = segment.read_at(self.section.record_offset(bucket)?, &mut self.records);
        self.records.truncate(got);
        self.first = bucket;
        self.at_hand(bucket)
    }

    fn at_hand(&self, bucket: u64) -> Option<Bucket> {
        let at = usize::try_from(bucket.checked_sub(self.first)? * self.section.record_bytes).ok()?;
        Bucket::decode(self.records.get(at..)?)
    }
}
