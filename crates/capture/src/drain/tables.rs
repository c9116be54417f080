//! What describes the program, copied from the segment into frames as it grows.

mod growing;

use heapwise_format::bytes::{text, u64_at};
use heapwise_format::recording::{FrameHeader, FrameKind};
use heapwise_format::segment::{
    COUNTERS_OFFSET, Counter, Layout, Mark, PAGE_BYTES, SectionKind, SegmentSource,
};
use heapwise_profile::recording::RawFrame;

use crate::segments::SegmentFile;
use growing::Growing;

/// How much of each table has been written.
#[derive(Debug)]
pub struct Tables {
    layout: Layout,
    /// `CLOCK_MONOTONIC` nanoseconds of millisecond 0.
    origin_ns: u64,
    has_process: bool,
    /// Tables that only grow.
    growing: [Growing; 3],
    /// Tables whose records change, with a copy of what was written last.
    changing: [(SectionKind, Counter, Vec<u8>); 2],
}

impl Tables {
    /// Nothing written yet.
    pub fn new(layout: Layout, origin_ns: u64) -> Self {
        Self {
            layout,
            origin_ns,
            has_process: false,
            growing: [
                Growing::new(SectionKind::Modules, Counter::Modules),
                Growing::new(SectionKind::Strings, Counter::Strings),
                Growing::new(SectionKind::Nodes, Counter::Nodes),
            ],
            changing: [
                (SectionKind::Threads, Counter::Threads, Vec::new()),
                // Marks are set from both ends of their table, so all of it is looked at.
                (SectionKind::Marks, Counter::Marks, Vec::new()),
            ],
        }
    }

    /// Frames for what is new since the last call.
    pub fn update(&mut self, segment: &SegmentFile) -> Vec<RawFrame> {
        let mut frames = Vec::new();
        if !self.has_process {
            let page = read(segment, 0, PAGE_BYTES);
            frames.push(RawFrame { header: FrameHeader::new(FrameKind::Process), payload: page });
            self.has_process = true;
        }
        let mut counters = read(segment, COUNTERS_OFFSET as u64, PAGE_BYTES);
        let at = Counter::PeriodStart as usize * 8;
        if let Some(word) = counters.get_mut(at..at + 8) {
            word.copy_from_slice(&self.origin_ns.to_le_bytes());
        }
        let layout = self.layout;
        for growing in &mut self.growing {
            let length = u64_at(&counters, growing.counter as usize * 8).unwrap_or(0);
            frames.extend(growing.update(segment, layout.section(growing.kind), length));
        }
        for (kind, counter, copy) in &mut self.changing {
            let section = layout.section(*kind);
            let length = u64_at(&counters, *counter as usize * 8).unwrap_or(0);
            let count =
                if *kind == SectionKind::Marks { section.capacity } else { length.min(section.capacity) };
            let records = read(segment, section.offset, (count * section.record_bytes) as usize);
            if records != *copy && records.iter().any(|byte| *byte != 0) {
                copy.clone_from(&records);
                frames.push(table(*kind, 0, count, records));
            }
        }
        frames.push(RawFrame { header: FrameHeader::new(FrameKind::Counters), payload: counters });
        frames
    }

    /// Frames for everything, for the start of another file. What is new then is in them too.
    pub fn all(&mut self, segment: &SegmentFile) -> Vec<RawFrame> {
        *self = Self::new(self.layout, self.origin_ns);
        self.update(segment)
    }

    /// Names of the marks in the order of time.
    pub fn marks(&self) -> Vec<String> {
        let (_, _, records) = &self.changing[1];
        let mut marks: Vec<(u64, String)> = records
            .chunks_exact(size_of::<Mark>())
            .filter_map(Mark::decode)
            .filter(|mark| mark.time_ns >= self.origin_ns && mark.time_ns != 0)
            .map(|mark| (mark.time_ns, String::from_utf8_lossy(text(&mark.name)).into_owned()))
            .collect();
        marks.sort();
        marks.into_iter().map(|(_, name)| name).collect()
    }
}

fn table(kind: SectionKind, first: u64, count: u64, payload: Vec<u8>) -> RawFrame {
    let header = FrameHeader {
        section: kind as u16,
        first,
        count: count as u32,
        ..FrameHeader::new(FrameKind::Table)
    };
    RawFrame { header, payload }
}

fn read(segment: &SegmentFile, offset: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    let got = segment.read_at(offset, &mut buffer);
    buffer.truncate(got);
    buffer
}
