//! Reading the chunks of the log: what is new in each, and letting go of those that are read to
//! their ends.

use heapwise_format::chunk::{HEADER_BYTES, Published, look, release_chunk};
use heapwise_format::segment::{Counter, Layout, Section, SectionKind, SegmentSource};
use heapwise_profile::recording::{Merger, Piece};

use super::read_counter;
use crate::segments::SegmentFile;

/// How far each chunk has been read.
#[derive(Debug)]
pub(super) struct Chunks {
    section: Section,
    /// Bytes of events read of each chunk in use; 0 also for chunks without an owner.
    done: Vec<usize>,
}

/// New bytes of a chunk.
struct New {
    piece: Piece,
    /// Where they begin in the segment.
    offset: u64,
    len: usize,
}

impl Chunks {
    /// Nothing read yet.
    pub(super) fn new(layout: &Layout) -> Self {
        Self { section: layout.section(SectionKind::Chunks), done: Vec::new() }
    }

    /// Feeds everything new to the merger; the number of bytes.
    pub(super) fn read(&mut self, segment: &SegmentFile, merger: &mut Merger) -> usize {
        self.each(segment, |New { piece, offset, len }| {
            merger.feed(piece, len, |room| segment.read_at(offset, room) == len)
        })
    }

    /// Passes over everything that is there already.
    pub(super) fn skip_past(&mut self, segment: &SegmentFile, merger: &mut Merger) {
        self.each(segment, |New { piece, len, .. }| {
            merger.skip(piece, len);
            true
        });
    }

    fn each(&mut self, segment: &SegmentFile, mut feed: impl FnMut(New) -> bool) -> usize {
        let used = read_counter(segment, Counter::Chunks).min(self.section.capacity) as usize;
        self.done.resize(used.max(self.done.len()), 0);
        (0..used).map(|index| self.read_one(segment, index, &mut feed)).sum()
    }

    fn read_one(&mut self, segment: &SegmentFile, index: usize, feed: &mut impl FnMut(New) -> bool) -> usize {
        let Some(start) = self.section.record_offset(index as u64) else { return 0 };
        let Some(Published { header, is_complete }) = look(segment, start) else { return 0 };
        let done = self.done[index];
        let len = header.len.saturating_sub(done);
        if len == 0 && !is_complete {
            return 0;
        }
        let piece = Piece {
            stream: header.stream,
            thread: header.thread,
            sequence: header.sequence,
            is_complete,
            is_last: is_complete && header.is_last,
        };
        if !feed(New { piece, offset: start + (HEADER_BYTES + done) as u64, len }) {
            return 0;
        }
        self.done[index] = if is_complete && release_chunk(segment, start).is_ok() { 0 } else { done + len };
        len
    }
}
