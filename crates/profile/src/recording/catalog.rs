//! What a recording says about its program: modules, stacks, threads, marks, buckets. The tables are the
//! segment's own records, so they are read by presenting them as a segment again.

use heapwise_format::bytes::{text, u64_at};
use heapwise_format::recording::{FrameKind, SiteBucket};
use heapwise_format::segment::{
    COUNTERS_OFFSET, Counter, Header, Mark, PAGE_BYTES, SectionKind, SegmentSource, Thread as ThreadRecord,
};

use super::names::Names;
use super::{Counts, Damage, Recording, RecordingSource};
use crate::snapshot::{Snapshot, unknown_stack};
use crate::{Losses, Profile, Sample, Sampling, StackId, Thread, ThreadId, Values};

/// A named moment of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkAt {
    /// Milliseconds since the start of the recording.
    pub ms: u64,
    /// Its name.
    pub name: String,
}

/// The tables of a recording.
#[derive(Debug)]
pub struct Catalog {
    segment: StoredSegment,
    names: Names,
    /// Buckets by number; 0 is nobody's.
    pub buckets: Vec<SiteBucket>,
    /// Threads by their number in entries.
    pub threads: Vec<Thread>,
    /// Marks in the order of time.
    pub marks: Vec<MarkAt>,
    /// Wall-clock time of millisecond 0, nanoseconds since the epoch.
    pub start_unix_ns: u64,
}

/// Sections as far as the recording has them, at their places in the segment.
#[derive(Debug, Default)]
struct StoredSegment {
    pages: Vec<u8>,
    sections: Vec<(u64, Vec<u8>)>,
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

impl Catalog {
    /// Reads all tables of a recording.
    ///
    /// # Errors
    /// At the first damaged table.
    pub fn read<S: RecordingSource>(recording: &Recording<S>) -> Result<Self, Damage> {
        let mut catalog = Self {
            names: Names::default(),
            segment: StoredSegment { pages: vec![0; COUNTERS_OFFSET + PAGE_BYTES], sections: Vec::new() },
            buckets: vec![SiteBucket::default()],
            threads: Vec::new(),
            marks: Vec::new(),
            start_unix_ns: 0,
        };
        for (number, frame) in recording.frames().iter().enumerate() {
            let header = &frame.header;
            let wanted = matches!(
                header.kind,
                FrameKind::Process
                    | FrameKind::Counters
                    | FrameKind::Table
                    | FrameKind::Buckets
                    | FrameKind::Symbols
            );
            if wanted {
                let payload = recording.payload(number)?;
                catalog
                    .add(header.kind, header.section, header.first, &payload)
                    .ok_or_else(|| recording.damaged(number))?;
            }
        }
        catalog.resolve();
        Ok(catalog)
    }

    fn add(&mut self, kind: FrameKind, section: u16, first: u64, payload: &[u8]) -> Option<()> {
        match kind {
            FrameKind::Process => {
                let header = Header::decode(payload).ok()?;
                self.segment.pages.get_mut(..PAGE_BYTES)?.copy_from_slice(payload.get(..PAGE_BYTES)?);
                if self.segment.sections.is_empty() {
                    let sections = header.layout.sections().iter();
                    self.segment.sections = sections.map(|section| (section.offset, Vec::new())).collect();
                }
            }
            FrameKind::Counters => {
                self.segment.pages.get_mut(COUNTERS_OFFSET..)?.copy_from_slice(payload.get(..PAGE_BYTES)?);
            }
            FrameKind::Table => {
                let layout = Header::decode(&self.segment.pages).ok()?.layout;
                let kind = *SectionKind::ALL.get(usize::from(section))?;
                let at = usize::try_from(first.checked_mul(layout.section(kind).record_bytes)?).ok()?;
                overlay(&mut self.segment.sections.get_mut(usize::from(section))?.1, at, payload)?;
            }
            FrameKind::Symbols => self.names = Names::decode(payload)?,
            FrameKind::Buckets => self.add_buckets(usize::try_from(first).ok()?, payload)?,
            _ => {}
        }
        Some(())
    }

    fn add_buckets(&mut self, first: usize, payload: &[u8]) -> Option<()> {
        let (mut at, mut number) = (0, first);
        while at < payload.len() {
            let bucket = SiteBucket::decode(payload, &mut at)?;
            match number.cmp(&self.buckets.len()) {
                std::cmp::Ordering::Less => *self.buckets.get_mut(number)? = bucket,
                std::cmp::Ordering::Equal => self.buckets.push(bucket),
                std::cmp::Ordering::Greater => return None,
            }
            number += 1;
        }
        Some(())
    }

    /// Draws what is not needed as bytes out of the tables.
    fn resolve(&mut self) {
        let Ok(header) = Header::decode(&self.segment.pages) else { return };
        let records = |kind: SectionKind| {
            let bytes = self.segment.sections.get(kind as usize).map(|(_, bytes)| bytes.as_slice());
            bytes.unwrap_or_default().chunks_exact(header.layout.section(kind).record_bytes.max(1) as usize)
        };
        let name = |bytes: &[u8]| String::from_utf8_lossy(text(bytes)).into_owned();
        self.threads = records(SectionKind::Threads)
            .filter_map(ThreadRecord::decode)
            .map(|record| Thread { tid: u64::from(record.tid), name: name(&record.name) })
            .collect();
        let start_ns = self.counter(Counter::PeriodStart);
        self.marks = records(SectionKind::Marks)
            .filter_map(Mark::decode)
            .filter(|mark| mark.time_ns >= start_ns && mark.time_ns != 0)
            .map(|mark| MarkAt { ms: (mark.time_ns - start_ns) / 1_000_000, name: name(&mark.name) })
            .collect();
        self.marks.sort_by(|a, b| (a.ms, &a.name).cmp(&(b.ms, &b.name)));
        self.start_unix_ns =
            header.start_realtime_ns.saturating_add(start_ns.saturating_sub(header.start_monotonic_ns));
    }

    /// A counter of the segment as the recorder saw it last. `PeriodStart` is millisecond 0 of the
    /// recording.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        u64_at(&self.segment.pages, COUNTERS_OFFSET + counter as usize * 8).unwrap_or(0)
    }

    /// What the program could not record.
    #[must_use]
    pub fn losses(&self) -> Losses {
        Snapshot::open(&self.segment).map(|snapshot| snapshot.losses()).unwrap_or_default()
    }

    /// Modules and stacks without samples, with the names that the recording carries, and the stack of each node.
    #[must_use]
    pub fn stacks(&self) -> (Profile, Vec<Option<StackId>>) {
        let (mut profile, stacks) = match Snapshot::open(&self.segment) {
            Ok(snapshot) => snapshot.stacks(),
            Err(_) => (Profile::default(), Vec::new()),
        };
        profile.meta.source = "heapwise recording".into();
        profile.meta.sampling = Sampling::Exact;
        profile.meta.duration_ns = None;
        profile.threads.clone_from(&self.threads);
        self.names.apply(&mut profile);
        (profile, stacks)
    }

    /// The thread that allocates a bucket's blocks, where it has a record.
    fn owner(&self, bucket: &SiteBucket) -> Option<ThreadId> {
        let number = usize::from(bucket.thread);
        (number < self.threads.len()).then(|| ThreadId::new(number))
    }

    /// The profile that `counts` are, one sample per bucket that has any.
    #[must_use]
    pub fn profile(&self, counts: &Counts) -> Profile {
        let (mut profile, stacks) = self.stacks();
        let mut unknown = None;
        for (bucket, count) in self.buckets.iter().zip(counts.rows()) {
            if count.allocs | count.frees == 0 {
                continue;
            }
            let known = stacks.get(bucket.node as usize).copied().flatten();
            let stack = known.unwrap_or_else(|| *unknown.get_or_insert_with(|| unknown_stack(&mut profile)));
            let (allocs, live, size) = (count.allocs as f64, count.live() as f64, bucket.size as f64);
            profile.samples.push(Sample {
                stack,
                thread: self.owner(bucket),
                block_bytes: Some(bucket.size),
                values: Values {
                    alloc_objects: allocs,
                    alloc_bytes: allocs * size,
                    inuse_objects: live,
                    inuse_bytes: live * size,
                },
                variance: Values::default(),
            });
        }
        profile
    }
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
