//! What describes the program, copied from the segment into frames as it grows.

mod growing;

use heapwise_format::bytes::u64_at;
use heapwise_format::recording::{FrameHeader, FrameKind, encode_counters, table_number};
use heapwise_format::segment::{COUNTERS_OFFSET, Counter, Layout, PAGE_BYTES, SectionKind, SegmentSource};
use heapwise_profile::recording::RawFrame;

use super::losses::Losses;
use super::marks::Marks;
use crate::segments::SegmentFile;
use growing::Growing;

/// How much of each table has been written.
#[derive(Debug)]
pub(super) struct Tables {
    layout: Layout,
    /// `CLOCK_MONOTONIC` nanoseconds of millisecond 0.
    origin_ns: u64,
    /// What the counters of losses had counted before the recording began.
    before: Losses,
    has_process: bool,
    /// Tables that only grow.
    growing: [Growing; 3],
    /// Threads, whose records change: a copy of what was written last.
    threads: Vec<u8>,
    marks: Marks,
}

impl Tables {
    /// Nothing written yet.
    pub(super) fn new(layout: Layout, origin_ns: u64, before: Losses) -> Self {
        Self {
            layout,
            origin_ns,
            before,
            has_process: false,
            growing: [
                Growing::new(SectionKind::Modules, Counter::Modules),
                Growing::new(SectionKind::Strings, Counter::Strings),
                Growing::new(SectionKind::Nodes, Counter::Nodes),
            ],
            threads: Vec::new(),
            marks: Marks::new(layout.section(SectionKind::Marks), origin_ns),
        }
    }

    /// Frames for what is new since the last call.
    pub(super) fn update(&mut self, segment: &SegmentFile) -> Vec<RawFrame> {
        let mut frames = Vec::new();
        if !self.has_process {
            let page = read(segment, 0, PAGE_BYTES);
            frames.push(RawFrame { header: FrameHeader::new(FrameKind::Process), payload: page });
            self.has_process = true;
        }
        let counters = read(segment, COUNTERS_OFFSET as u64, PAGE_BYTES);
        let counter = |counter: Counter| match counter {
            Counter::PeriodStart => self.origin_ns,
            other => u64_at(&counters, other as usize * 8).unwrap_or(0).saturating_sub(self.before.of(other)),
        };
        let layout = self.layout;
        for growing in &mut self.growing {
            let length = counter(growing.counter);
            frames.extend(growing.update(segment, layout.section(growing.kind), length));
        }
        let section = layout.section(SectionKind::Threads);
        let count = counter(Counter::Threads).min(section.capacity);
        let threads = read(segment, section.offset, (count * section.record_bytes) as usize);
        if threads != self.threads {
            self.threads.clone_from(&threads);
            frames.push(table(SectionKind::Threads, 0, count, threads));
        }
        frames.extend(self.marks.update(segment, counter(Counter::Marks)));
        let mut payload = Vec::new();
        encode_counters(counter, &mut payload);
        frames.push(RawFrame { header: FrameHeader::new(FrameKind::Counters), payload });
        frames
    }

    /// Frames for everything, for the start of another file. What is new then is in them too.
    pub(super) fn all(&mut self, segment: &SegmentFile) -> Vec<RawFrame> {
        let Self { marks, layout, origin_ns, before, .. } = self;
        let mut fresh = Self::new(*layout, *origin_ns, *before);
        std::mem::swap(&mut fresh.marks, marks);
        fresh.marks.start_file();
        *self = fresh;
        self.update(segment)
    }

    /// Names of the marks in the order in which they were read.
    pub(super) fn marks(&self) -> Vec<String> {
        self.marks.names().collect()
    }
}

fn table(kind: SectionKind, first: u64, count: u64, payload: Vec<u8>) -> RawFrame {
    let header = FrameHeader {
        number: table_number(kind).unwrap_or(u16::MAX),
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
