//! Marks of the segment as rows of the recording. The program fills their table from its start, and
//! numbers its marks so; controllers fill it from its end.

use heapwise_format::bytes::text;
use heapwise_format::recording::{FrameHeader, FrameKind, MOST_MARKS, MarkRow};
use heapwise_format::segment::{Mark, Section, SegmentSource};
use heapwise_profile::recording::RawFrame;

/// The marks so far.
#[derive(Debug)]
pub(super) struct Marks {
    section: Section,
    /// `CLOCK_MONOTONIC` nanoseconds of millisecond 0.
    origin_ns: u64,
    rows: Vec<Row>,
    /// Rows that are in the file.
    written: usize,
    /// Records that were read from the start of the table.
    next: u64,
    /// Records before those that were not complete.
    incomplete: Vec<u64>,
    /// Records that were read from the end of the table.
    from_end: u64,
}

#[derive(Debug)]
struct Row {
    number: u64,
    time_ns: u64,
    name: Vec<u8>,
}

impl Marks {
    pub(super) fn new(section: Section, origin_ns: u64) -> Self {
        let (rows, incomplete) = (Vec::new(), Vec::new());
        Self { section, origin_ns, rows, written: 0, next: 0, incomplete, from_end: 0 }
    }

    /// The frame of marks that are new, when the program has set `used` of them.
    pub(super) fn update(&mut self, segment: &impl SegmentSource, used: u64) -> Option<RawFrame> {
        // Controllers' marks are not read as the program's when the two ends meet.
        let used = used.min(self.section.capacity - self.from_end);
        let mut waiting = std::mem::take(&mut self.incomplete);
        waiting.extend(self.next..used);
        self.next = used.max(self.next);
        for index in waiting {
            match self.read(segment, index) {
                Some(mark) => self.add(if index < MOST_MARKS { index + 1 } else { 0 }, &mark),
                None => self.incomplete.push(index),
            }
        }
        while let Some(index) = self.section.capacity.checked_sub(self.from_end + 1)
            && index >= used
            && let Some(mark) = self.read(segment, index)
        {
            self.add(0, &mark);
            self.from_end += 1;
        }
        self.frame()
    }

    /// A record, if it is complete: its time is written last.
    fn read(&self, segment: &impl SegmentSource, index: u64) -> Option<Mark> {
        let mut record = [0; size_of::<Mark>()];
        let got = segment.read_at(self.section.record_offset(index)?, &mut record);
        Mark::decode(record.get(..got)?).filter(|mark| mark.time_ns != 0)
    }

    /// Adds a mark, unless it is older than the recording.
    fn add(&mut self, number: u64, mark: &Mark) {
        if let Some(time_ns) = mark.time_ns.checked_sub(self.origin_ns) {
            self.rows.push(Row { number, time_ns, name: text(&mark.name).to_vec() });
        }
    }

    fn frame(&mut self) -> Option<RawFrame> {
        let new = self.rows.get(self.written..).filter(|new| !new.is_empty())?;
        let mut payload = Vec::new();
        for Row { number, time_ns, name } in new {
            MarkRow { number: *number, time_ns: *time_ns, name }.encode(&mut payload);
        }
        let header = FrameHeader { count: new.len() as u32, ..FrameHeader::new(FrameKind::Marks) };
        self.written = self.rows.len();
        Some(RawFrame { header, payload })
    }

    /// Another file begins: all marks are new to it.
    pub(super) fn start_file(&mut self) {
        self.written = 0;
    }

    /// Names of all marks in the order in which they were read.
    pub(super) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.rows.iter().map(|row| String::from_utf8_lossy(&row.name).into_owned())
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

    impl Memory {
        fn set(&self, index: usize, time_ns: u64, name: &str) {
            let record = &mut self.0.borrow_mut()[index * 64..][..64];
            record[..8].copy_from_slice(&time_ns.to_le_bytes());
            record[8..][..name.len()].copy_from_slice(name.as_bytes());
        }
    }

    fn rows(frame: Option<RawFrame>) -> Vec<(u64, u64, String)> {
        let (payload, mut at) = (frame.map_or(Vec::new(), |frame| frame.payload), 0);
        let mut rows = Vec::new();
        while let Some(row) = MarkRow::decode(&payload, &mut at) {
            rows.push((row.number, row.time_ns, String::from_utf8_lossy(row.name).into_owned()));
        }
        rows
    }

    fn row(number: u64, time_ns: u64, name: &str) -> (u64, u64, String) {
        (number, time_ns, name.to_owned())
    }

    #[test]
    fn the_programs_marks_are_numbered_and_a_controllers_are_not() {
        let memory = Memory(RefCell::new(vec![0; 6 * 64]));
        let mut marks = Marks::new(Section { offset: 0, capacity: 6, record_bytes: 64 }, 100);
        assert_eq!(rows(marks.update(&memory, 0)), []);
        memory.set(0, 99, "before");
        memory.set(2, 120, "third");
        memory.set(5, 130, "a/b@50%");
        assert_eq!(rows(marks.update(&memory, 3)), [row(3, 20, "third"), row(0, 30, "a/b@50%")]);
        memory.set(1, 110, "late");
        memory.set(4, 140, "other");
        assert_eq!(rows(marks.update(&memory, 3)), [row(2, 10, "late"), row(0, 40, "other")]);
        assert_eq!(rows(marks.update(&memory, 9)), [], "the two ends have met");
        marks.start_file();
        assert_eq!(rows(marks.frame()).len(), 4);
    }
}
