//! A table that only grows, though not in order: threads reserve records and write them
//! concurrently.

use heapwise_format::segment::{Counter, Node, Section, SectionKind, SegmentSource, read_appended};
use heapwise_profile::recording::RawFrame;

use super::table;

/// Largest payload of a frame.
const FRAME_BYTES: u64 = 16 << 20;
/// Updates until a record that is reserved and still not written is skipped: the probe had no
/// memory for it.
const PATIENCE: u32 = 64;

/// How much of a table has been written down.
#[derive(Debug)]
pub(super) struct Growing {
    pub(super) kind: SectionKind,
    /// Counts its records.
    pub(super) counter: Counter,
    /// Records before this one will not change any more.
    settled: u64,
    /// What was written down of the records from there on, in the form of a recording.
    unsettled: Vec<u8>,
    /// Updates in which nothing settled.
    waited: u32,
}

impl Growing {
    pub(super) fn new(kind: SectionKind, counter: Counter) -> Self {
        Self { kind, counter, settled: 0, unsettled: Vec::new(), waited: 0 }
    }

    /// Frames for what is new of `length` records, and again for what was not whole before.
    pub(super) fn update(
        &mut self,
        segment: &impl SegmentSource,
        section: Section,
        length: u64,
    ) -> Vec<RawFrame> {
        let mut frames = Vec::new();
        let length = length.min(section.capacity);
        while self.settled < length {
            let count = (length - self.settled).min(FRAME_BYTES / section.record_bytes);
            let mut records = vec![0; (count * section.record_bytes) as usize];
            let whole = self.read(segment, section, &mut records);
            let mut records = self.recorded(records);
            if records != self.unsettled {
                frames.push(table(self.kind, self.settled, count, records.clone()));
            }
            self.unsettled = records.split_off(records.len() / count as usize * whole as usize);
            self.settled += whole;
            if whole < count {
                break;
            }
        }
        frames
    }

    /// Records in the form of a recording.
    fn recorded(&self, records: Vec<u8>) -> Vec<u8> {
        if self.kind != SectionKind::Nodes {
            return records;
        }
        let nodes = records.chunks_exact(Node::BYTES).filter_map(Node::decode);
        nodes.flat_map(Node::encode_recorded).collect()
    }

    /// Reads records from the first unsettled one on; how many are settled now.
    fn read(&mut self, segment: &impl SegmentSource, section: Section, records: &mut [u8]) -> u64 {
        let offset = section.offset + self.settled * section.record_bytes;
        if self.kind == SectionKind::Strings {
            // Bytes have no "written" flag; bytes that were reserved one update ago count as
            // written.
            segment.read_at(offset, records);
            return self.unsettled.len().min(records.len()) as u64;
        }
        // The first node is the empty stack, and never written.
        let empty =
            if self.kind == SectionKind::Nodes && self.settled == 0 { section.record_bytes } else { 0 };
        let written = &mut records[empty as usize..];
        let whole = read_appended(segment, offset + empty, section.record_bytes as usize, written) as u64;
        let whole = whole + empty / section.record_bytes;
        self.waited = if whole == 0 { self.waited + 1 } else { 0 };
        if self.waited == PATIENCE {
            self.waited = 0;
            return 1;
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    struct Memory(RefCell<Vec<u8>>);

    impl SegmentSource for Memory {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
            buffer.copy_from_slice(&self.0.borrow()[offset as usize..][..buffer.len()]);
            buffer.len()
        }
    }

    fn memory() -> (Memory, Section) {
        (Memory(RefCell::new(vec![0; 96])), Section { offset: 0, capacity: 4, record_bytes: 24 })
    }

    fn rows(frames: &[RawFrame]) -> Vec<(u64, u32)> {
        frames.iter().map(|frame| (frame.header.first, frame.header.count)).collect()
    }

    /// A thread is slower than the one that reserved the next record.
    #[test]
    fn a_record_that_comes_late_is_written_down_too() {
        let (memory, section) = memory();
        let mut nodes = Growing::new(SectionKind::Nodes, Counter::Nodes);
        memory.0.borrow_mut()[48] = 2;
        assert_eq!(rows(&nodes.update(&memory, section, 3)), [(0, 3)]);
        assert_eq!(rows(&nodes.update(&memory, section, 3)), []);
        memory.0.borrow_mut()[24] = 1;
        assert_eq!(rows(&nodes.update(&memory, section, 3)), [(1, 2)]);
        assert_eq!(rows(&nodes.update(&memory, section, 3)), []);
        memory.0.borrow_mut()[72] = 3;
        assert_eq!(rows(&nodes.update(&memory, section, 4)), [(3, 1)]);
    }

    #[test]
    fn a_record_that_never_comes_is_given_up() {
        let (memory, section) = memory();
        let mut nodes = Growing::new(SectionKind::Nodes, Counter::Nodes);
        memory.0.borrow_mut()[48] = 2;
        for _ in 0..PATIENCE + 2 {
            nodes.update(&memory, section, 3);
        }
        memory.0.borrow_mut()[72] = 3;
        assert_eq!(rows(&nodes.update(&memory, section, 4)), [(3, 1)]);
    }
}
