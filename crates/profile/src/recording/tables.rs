//! Data of a recording about its program: modules, stacks, threads, marks, sites. The tables are
//! the segment's own records, so they are read by presenting them as a segment again.

use heapwise_format::bytes::{text, u64_at};
use heapwise_format::recording::{
    CallRow, FrameKind, MarkRow, Site, decode_counters, table_kind, version3 as old,
};
use heapwise_format::segment::{
    COUNTERS_OFFSET, Counter, Header, Layout, Mark, Node, PAGE_BYTES, SectionKind, SegmentSource,
    Thread as ThreadRecord, Tier,
};

use super::names::Names;
use super::reader::Placed;
use super::version3::Buckets;
use super::{Count, Counts, Damage, Point, Recording, RecordingSource, SizeCounts};
use crate::ledger::CallSite;
use crate::snapshot::{Snapshot, unknown_stack};
use crate::{
    Began, Losses, Profile, ProgramEnd, Sample, Sampling, SizeRange, StackId, Thread, ThreadId, Values,
};

/// A named point of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkAt {
    /// Milliseconds since the start of the recording.
    pub ms: u64,
    /// Its name: any text.
    pub name: String,
    /// Its number if it is a point of the event stream; 0 if only its time is known.
    pub number: u64,
}

impl MarkAt {
    /// The point of the event stream: exact for marks of the program, else the end of its
    /// millisecond.
    #[must_use]
    pub fn point(&self) -> Point {
        match self.number {
            0 => Point::Time(self.ms.saturating_add(1)),
            number => Point::Mark(number),
        }
    }
}

/// The tables of a recording.
#[derive(Debug)]
pub struct Tables {
    segment: StoredSegment,
    names: Names,
    buckets: Buckets,
    /// Sites by number; 0 is unused.
    pub sites: Vec<Site>,
    /// Threads by their number in entries.
    pub threads: Vec<Thread>,
    /// Marks in the order of time.
    pub marks: Vec<MarkAt>,
    /// Wall-clock time of millisecond 0, nanoseconds since the epoch.
    pub start_unix_ns: u64,
}

/// Sections as far as the recording has them, at their places in a segment of this version.
#[derive(Debug)]
struct StoredSegment {
    layout: Layout,
    pages: Vec<u8>,
    sections: Vec<(u64, Vec<u8>)>,
}

impl StoredSegment {
    fn new() -> Self {
        let layout = Layout::new(Tier::Full);
        let sections = layout.sections().iter().map(|section| (section.offset, Vec::new())).collect();
        Self { layout, pages: vec![0; COUNTERS_OFFSET + PAGE_BYTES], sections }
    }

    fn set_process(&mut self, page: &[u8]) -> Option<()> {
        let mut encoded = [0; PAGE_BYTES];
        Header::decode_process(page, self.layout).ok()?.encode(&mut encoded);
        self.pages.get_mut(..PAGE_BYTES)?.copy_from_slice(&encoded);
        Some(())
    }

    fn set_counter(&mut self, counter: Counter, value: u64) {
        let at = COUNTERS_OFFSET + counter as usize * 8;
        if let Some(word) = self.pages.get_mut(at..at + 8) {
            word.copy_from_slice(&value.to_le_bytes());
        }
    }

    fn counter(&self, counter: Counter) -> u64 {
        u64_at(&self.pages, COUNTERS_OFFSET + counter as usize * 8).unwrap_or(0)
    }

    fn add_records(&mut self, kind: SectionKind, first: u64, records: &[u8]) -> Option<()> {
        if kind == SectionKind::Nodes {
            let nodes = records.chunks_exact(Node::RECORDED_BYTES).filter_map(Node::decode_recorded);
            let nodes: Vec<u8> = nodes.flat_map(Node::encode).collect();
            return self.add_segment_records(kind, first, &nodes);
        }
        self.add_segment_records(kind, first, records)
    }

    fn add_segment_records(&mut self, kind: SectionKind, first: u64, records: &[u8]) -> Option<()> {
        let at = usize::try_from(first.checked_mul(self.layout.section(kind).record_bytes)?).ok()?;
        overlay(&mut self.sections.get_mut(kind as usize)?.1, at, records)
    }

    fn records(&self, kind: SectionKind) -> impl Iterator<Item = &[u8]> {
        let bytes = self.sections.get(kind as usize).map(|(_, bytes)| bytes.as_slice());
        bytes.unwrap_or_default().chunks_exact(self.layout.section(kind).record_bytes.max(1) as usize)
    }
}

impl SegmentSource for StoredSegment {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let pages = (0, &self.pages);
        let sections = self.sections.iter().map(|(start, bytes)| (*start, bytes));
        let found = std::iter::once(pages).chain(sections).find_map(|(start, bytes)| {
            let at = usize::try_from(offset.checked_sub(start)?).ok()?;
            bytes.get(at..).filter(|rest| !rest.is_empty())
        });
        let rest = found.unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        len
    }
}

impl Tables {
    /// Reads all tables of a recording.
    ///
    /// # Errors
    /// At the first damaged table.
    pub fn read<S: RecordingSource>(recording: &Recording<S>) -> Result<Self, Damage> {
        let mut tables = Self {
            names: Names::default(),
            segment: StoredSegment::new(),
            buckets: Buckets::default(),
            sites: vec![Site::default()],
            threads: Vec::new(),
            marks: Vec::new(),
            start_unix_ns: 0,
        };
        for (number, frame) in recording.frames().iter().enumerate() {
            let is_table = !matches!(
                frame.header.kind,
                FrameKind::Events
                    | FrameKind::Timeline
                    | FrameKind::Ledger
                    | FrameKind::Calls
                    | FrameKind::Checkpoint
                    | FrameKind::Index
            );
            if is_table {
                let payload = recording.payload(number)?;
                tables
                    .add(frame, recording.is_version3(frame), &payload)
                    .ok_or_else(|| recording.damaged(number))?;
            }
        }
        tables.resolve();
        Ok(tables)
    }

    fn add(&mut self, frame: &Placed, is_version3: bool, payload: &[u8]) -> Option<()> {
        let header = &frame.header;
        let (first, segment) = (usize::try_from(header.first).ok()?, &mut self.segment);
        match header.kind {
            FrameKind::Process => segment.set_process(payload)?,
            FrameKind::Counters if is_version3 => {
                old::decode_counters(payload, |counter, value| segment.set_counter(counter, value))?;
            }
            FrameKind::Counters => {
                decode_counters(payload, |counter, value| segment.set_counter(counter, value))?;
            }
            FrameKind::Table => {
                // Other tables are not needed.
                if let Some(kind) = table_kind(header.number) {
                    segment.add_records(kind, header.first, payload)?;
                }
            }
            FrameKind::Symbols => self.names = Names::decode(payload)?,
            FrameKind::Sites if is_version3 => self.buckets.add(first, payload, &mut self.sites)?,
            FrameKind::Sites => self.add_sites(first, payload)?,
            FrameKind::Marks => self.add_marks(payload)?,
            FrameKind::Events
            | FrameKind::Timeline
            | FrameKind::Ledger
            | FrameKind::Calls
            | FrameKind::Checkpoint
            | FrameKind::Index => {}
        }
        Some(())
    }

    fn add_sites(&mut self, first: usize, payload: &[u8]) -> Option<()> {
        let (mut at, mut number) = (0, first);
        while at < payload.len() {
            let site = Site::decode(payload, &mut at)?;
            match number.cmp(&self.sites.len()) {
                std::cmp::Ordering::Less => *self.sites.get_mut(number)? = site,
                std::cmp::Ordering::Equal => self.sites.push(site),
                std::cmp::Ordering::Greater => return None,
            }
            number += 1;
        }
        Some(())
    }

    fn add_marks(&mut self, payload: &[u8]) -> Option<()> {
        let mut at = 0;
        while at < payload.len() {
            let MarkRow { number, time_ns, name } = MarkRow::decode(payload, &mut at)?;
            self.marks.push(MarkAt { ms: time_ns / 1_000_000, name: lossy(name), number });
        }
        Some(())
    }

    /// Draws what is not needed as bytes out of the tables.
    fn resolve(&mut self) {
        let Ok(header) = Header::decode(&self.segment.pages) else { return };
        self.threads = self
            .segment
            .records(SectionKind::Threads)
            .filter_map(ThreadRecord::decode)
            .zip(0..)
            .map(|(record, number)| Thread {
                tid: u64::from(record.tid),
                number,
                name: lossy(text(&record.name)),
            })
            .collect();
        let start_ns = self.counter(Counter::PeriodStart);
        let timed = self.segment.records(SectionKind::Marks).filter_map(Mark::decode);
        let timed = timed.filter(|mark| mark.time_ns >= start_ns && mark.time_ns != 0);
        self.marks.extend(timed.map(|mark| MarkAt {
            ms: (mark.time_ns - start_ns) / 1_000_000,
            name: lossy(text(&mark.name)),
            number: 0,
        }));
        // Files of a rotated recording repeat the marks before them.
        self.marks.sort_by(|a, b| (a.ms, a.number, &a.name).cmp(&(b.ms, b.number, &b.name)));
        self.marks.dedup();
        self.start_unix_ns =
            header.start_realtime_ns.saturating_add(start_ns.saturating_sub(header.start_monotonic_ns));
    }

    pub(super) fn buckets(&self) -> &Buckets {
        &self.buckets
    }

    /// A counter of the segment as the recorder saw it last. `PeriodStart` is millisecond 0 of the
    /// recording.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.segment.counter(counter)
    }

    /// Losses of the program.
    #[must_use]
    pub fn losses(&self) -> Losses {
        Snapshot::open(&self.segment).map(|snapshot| snapshot.losses()).unwrap_or_default()
    }

    /// How the program ended, as the recorder noted at the end of the recording.
    #[must_use]
    pub fn end(&self) -> ProgramEnd {
        ProgramEnd::from_code(self.counter(Counter::End))
    }

    /// When the recording began: millisecond 0 is the start of the program for recordings that
    /// began with it.
    fn began(&self) -> Began {
        let Ok(header) = Header::decode(&self.segment.pages) else { return Began::Unknown };
        match self.counter(Counter::PeriodStart).saturating_sub(header.start_monotonic_ns) {
            0 => Began::WithProgram,
            after_ns => Began::Late { after_ns },
        }
    }

    /// Modules and stacks without samples, with the names that the recording carries, and the stack
    /// of each node.
    #[must_use]
    pub fn stacks(&self) -> (Profile, Vec<Option<StackId>>) {
        let (mut profile, stacks) = match Snapshot::open(&self.segment) {
            Ok(snapshot) => snapshot.stacks(),
            Err(_) => (Profile::default(), Vec::new()),
        };
        profile.meta.source = "heapwise recording".into();
        profile.meta.sampling = Sampling::Exact;
        profile.meta.duration_ns = None;
        profile.meta.recorded.began = self.began();
        profile.meta.recorded.stopped_ns = None;
        profile.threads.clone_from(&self.threads);
        self.names.apply(&mut profile);
        (profile, stacks)
    }

    /// Calls that returned or created memory, in the order of time, and the profile of their
    /// stacks. Each is the sum of the calls that the recorder found at once, at the time of the
    /// last.
    ///
    /// # Errors
    /// At the first damaged frame.
    pub fn memory_calls<S: RecordingSource>(
        &self,
        recording: &Recording<S>,
    ) -> Result<(Profile, Vec<CallSite>), Damage> {
        let (mut profile, nodes) = self.stacks();
        let mut unknown = None;
        let mut stack = |node: u32| {
            let known = nodes.get(node as usize).copied().flatten();
            known.unwrap_or_else(|| *unknown.get_or_insert_with(|| unknown_stack(&mut profile)))
        };
        let site = |row: CallRow| CallSite {
            kind: row.kind,
            stack: (row.node != 0).then(|| stack(row.node)),
            count: row.count,
            bytes: row.bytes,
            first_ms: row.ms,
            last_ms: row.ms,
        };
        let mut calls: Vec<CallSite> = recording.call_rows()?.into_iter().map(site).collect();
        calls.sort_by_key(|call| call.last_ms);
        Ok((profile, calls))
    }

    /// The profile of `counts`, one sample per site that has any.
    #[must_use]
    pub fn profile(&self, counts: &Counts) -> Profile {
        let rows = counts.rows().iter().enumerate().map(|(site, count)| (site as u32, None, count));
        self.profile_of(rows)
    }

    /// The profile of `counts`, one sample per site and size that has any.
    #[must_use]
    pub fn profile_by_size(&self, counts: &SizeCounts) -> Profile {
        let rows = counts.rows();
        let sized = rows.iter().map(|(block, count)| (block.site, Some(block.size), count));
        let unknown = counts.of_unknown_size().rows().iter().enumerate();
        self.profile_of(sized.chain(unknown.map(|(site, count)| (site as u32, None, count))))
    }

    fn profile_of<'a>(&self, rows: impl Iterator<Item = (u32, Option<u64>, &'a Count)>) -> Profile {
        let (mut profile, stacks) = self.stacks();
        let mut unknown = None;
        for (site, size, count) in rows.filter(|(_, _, count)| !count.is_empty()) {
            let Some(Site { node, thread }) = self.sites.get(site as usize) else { continue };
            let known = stacks.get(*node as usize).copied().flatten();
            let stack = known.unwrap_or_else(|| *unknown.get_or_insert_with(|| unknown_stack(&mut profile)));
            let thread = usize::from(*thread);
            profile.samples.push(Sample {
                stack,
                thread: (thread < self.threads.len()).then(|| ThreadId::new(thread)),
                sizes: size.map(SizeRange::one),
                values: values(count),
                variance: Values::default(),
            });
        }
        profile
    }
}

fn values(count: &Count) -> Values {
    Values {
        alloc_objects: count.allocs as f64,
        alloc_bytes: count.alloc_bytes as f64,
        inuse_objects: count.live() as f64,
        inuse_bytes: count.live_bytes() as f64,
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes `new` at `at`, extending `bytes`; `None` when that would leave a hole.
fn overlay(bytes: &mut Vec<u8>, at: usize, new: &[u8]) -> Option<()> {
    if at > bytes.len() {
        return None;
    }
    let overlap = (bytes.len() - at).min(new.len());
    bytes.get_mut(at..at + overlap)?.copy_from_slice(new.get(..overlap)?);
    bytes.extend_from_slice(new.get(overlap..)?);
    Some(())
}
