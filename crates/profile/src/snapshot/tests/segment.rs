//! A segment made by hand, in memory.

use heapwise_format::paths::ProcessId;
use heapwise_format::segment::{
    Architecture, COUNTERS_OFFSET, Counter, Header, Layout, NodePlace, PAGE_BYTES, SIZE_CLASSES, SectionKind,
    SegmentSource, SizeCount, Tally, TallyDetails, TallyWeights, Tier, size_class,
};

use crate::Profile;
use crate::snapshot::Snapshot;

/// The epoch in which the period began.
pub(super) const PERIOD_EPOCH: u32 = 3;

pub(super) struct Segment {
    pub(super) layout: Layout,
    pub(super) bytes: Vec<u8>,
    strings: u64,
}

impl SegmentSource for Segment {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        len
    }
}

impl Segment {
    pub(super) fn new() -> Self {
        let layout = Layout::new(Tier::Least);
        let mut page = [0; PAGE_BYTES];
        let process = ProcessId { pid: 77, starttime: 1 };
        Header::new(process, Architecture::X86_64, layout).encode(&mut page);
        let mut bytes = page.to_vec();
        bytes.resize(layout.file_bytes() as usize, 0);
        let mut segment = Self { layout, bytes, strings: 0 };
        segment.set(Counter::Period, 2);
        segment.set(Counter::PeriodEpoch, PERIOD_EPOCH.into());
        segment.set(Counter::Nodes, 1);
        segment.set(Counter::Tallies, 1);
        segment
    }

    pub(super) fn profile(&self) -> Profile {
        Snapshot::open(self).expect("a segment").profile()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn set(&mut self, counter: Counter, value: u64) {
        self.write(COUNTERS_OFFSET + counter as usize * 8, &value.to_le_bytes());
    }

    pub(super) fn get(&self, counter: Counter) -> u64 {
        let at = COUNTERS_OFFSET + counter as usize * 8;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    fn record(&mut self, kind: SectionKind, index: u64, words: &[u64]) {
        let at = self.layout.section(kind).record_offset(index).expect("room");
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(at as usize, &bytes);
    }

    fn next(&mut self, counter: Counter) -> u64 {
        let number = self.get(counter);
        self.set(counter, number + 1);
        number
    }

    /// A stack of one return address.
    pub(super) fn node(&mut self, address: u64) -> u32 {
        let number = self.next(Counter::Nodes);
        self.record(SectionKind::Nodes, number, &[NodePlace::Return(address).encode(), 0, 0]);
        number as u32
    }

    /// A declared frame, called from `parent`.
    pub(super) fn declared(&mut self, name: &str, parent: u32) -> u32 {
        let string = self.strings;
        let at = (self.layout.section(SectionKind::Strings).offset + string) as usize;
        self.write(at, &(name.len() as u16).to_le_bytes());
        self.write(at + 2, name.as_bytes());
        self.strings += 2 + name.len() as u64;
        self.set(Counter::Strings, self.strings);
        let place = NodePlace::Declared { string: string as u32, line: 0 }.encode();
        let number = self.next(Counter::Nodes);
        self.record(SectionKind::Nodes, number, &[place, 0, u64::from(parent) << 32]);
        number as u32
    }

    pub(super) fn thread(&mut self, tid: u32) -> u16 {
        let number = self.next(Counter::Threads);
        self.record(SectionKind::Threads, number, &[u64::from(tid) | 1 << 32]);
        number as u16
    }

    pub(super) fn rate(&mut self, mean_bytes: u64) -> u16 {
        let number = self.get(Counter::Rates).max(1);
        self.set(Counter::Rates, number + 1);
        self.record(SectionKind::Rates, number, &[mean_bytes]);
        number as u16
    }

    /// Adds a tally; its epoch defaults to the first one of the period.
    pub(super) fn tally(&mut self, tally: Tally, details: TallyDetails, weights: TallyWeights) {
        let number = self.next(Counter::Tallies);
        let Tally { node, rate, thread, epoch, min_size, max_size, .. } = tally;
        let epoch = if epoch == 0 { PERIOD_EPOCH } else { epoch };
        let site = u64::from(node) | u64::from(rate) << 32 | u64::from(thread) << 48;
        let words = [
            site,
            u64::from(epoch) | u64::from(min_size) << 32 | u64::from(max_size) << 48,
            tally.allocs,
            tally.alloc_bytes,
            tally.frees,
            tally.freed_bytes,
            tally.alloc_slack,
            tally.freed_slack,
        ];
        self.record(SectionKind::Tallies, number, &words);
        let sizes = u64::from(details.min_size) | u64::from(details.max_size) << 32;
        let TallyDetails { peak_blocks, peak_bytes, grown_bytes, .. } = details;
        let words = [sizes, peak_blocks as u64, peak_bytes as u64, grown_bytes];
        self.record(SectionKind::TallyDetails, number, &words);
        let words = [
            weights.alloc_blocks,
            weights.alloc_bytes,
            weights.alloc_blocks_variance,
            weights.alloc_bytes_variance,
            weights.freed_blocks,
            weights.freed_bytes,
            weights.freed_blocks_variance,
            weights.freed_bytes_variance,
        ];
        self.record(SectionKind::TallyWeights, number, &words);
    }

    /// Adds a tally without details.
    pub(super) fn counts(
        &mut self,
        node: u32,
        thread: u16,
        [allocs, alloc_bytes, frees, freed_bytes]: [u64; 4],
    ) {
        let tally = Tally { node, thread, allocs, alloc_bytes, frees, freed_bytes, ..Tally::default() };
        self.tally(tally, TallyDetails::default(), TallyWeights::default());
    }

    /// Counts blocks of one size in a record of the histogram.
    pub(super) fn size_count(&mut self, record: u64, size: u64, allocs: u64, frees: u64) {
        let class = size_class(size);
        assert!(class < SIZE_CLASSES);
        let at = self.layout.section(SectionKind::Sizes).record_offset(record).expect("room") as usize;
        let words = [allocs, allocs * size, frees, frees * size];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(at + class * size_of::<SizeCount>(), &bytes);
    }
}

/// A generator of test numbers.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    /// From 0 to 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
