//! Reading the chunks of the log: what is new in each, and letting go of those that are read to their ends.

use heapwise_format::bytes::u64_at;
use heapwise_format::chunk::{HEADER_BYTES, Published, let_go, look};
use heapwise_format::segment::{COUNTERS_OFFSET, Counter, Layout, Section, SectionKind, SegmentSource};
use heapwise_profile::recording::{Merger, Piece};

use crate::capture::segments::SegmentFile;

/// How far each chunk has been read.
#[derive(Debug)]
pub struct Chunks {
    section: Section,
    /// Bytes of events read of each chunk in use; 0 also for chunks in nobody's hands.
    done: Vec<usize>,
    buffer: Vec<u8>,
}

impl Chunks {
    /// Nothing read yet.
    pub fn new(layout: &Layout) -> Self {
        Self { section: layout.section(SectionKind::Chunks), done: Vec::new(), buffer: Vec::new() }
    }

    /// Feeds everything new to the merger; the number of bytes.
    pub fn read(&mut self, segment: &SegmentFile, merger: &mut Merger) -> usize {
        self.each(segment, |piece| merger.feed(piece))
    }

    /// Passes over everything that is there already.
    pub fn skip_past(&mut self, segment: &SegmentFile, merger: &mut Merger) {
        self.each(segment, |piece| merger.feed_past(piece));
    }

    fn each(&mut self, segment: &SegmentFile, mut feed: impl FnMut(Piece<'_>)) -> usize {
        let mut word = [0; 8];
        segment.read_at(COUNTERS_OFFSET as u64 + Counter::Chunks as u64 * 8, &mut word);
        let used = u64_at(&word, 0).unwrap_or(0).min(self.section.capacity) as usize;
        self.done.resize(used.max(self.done.len()), 0);
        (0..used).map(|index| self.read_one(segment, index, &mut feed)).sum()
    }

    fn read_one(&mut self, segment: &SegmentFile, index: usize, feed: &mut impl FnMut(Piece<'_>)) -> usize {
        let Some(offset) = self.section.record_offset(index as u64) else { return 0 };
        let Some(Published { header, is_complete }) = look(segment, offset) else { return 0 };
        let done = self.done[index];
        let new = header.len.saturating_sub(done);
        self.buffer.resize(new, 0);
        let got = segment.read_at(offset + (HEADER_BYTES + done) as u64, &mut self.buffer);
        if got < new {
            return 0;
        }
        if new > 0 || is_complete {
            feed(Piece {
                stream: header.stream,
                thread: header.thread,
                sequence: header.sequence,
                bytes: &self.buffer,
                is_complete,
                is_last: is_complete && header.is_last,
            });
        }
        self.done[index] = if is_complete && let_go(segment, offset).is_ok() { 0 } else { done + new };
        new
    }
}
