//! Whole recordings in memory: a simulated program is recorded, written, read back, and compared
//! with the program's own account at every millisecond and mark.

use std::collections::HashMap;

use heapwise_format::event::Event;
use heapwise_format::paths::ProcessId;
use heapwise_format::recording::{
    Codec, FrameHeader, FrameKind, INDEX_ROW_BYTES, IndexRow, MarkRow, Trailer, encode_counters, preamble,
    table_number,
};
use heapwise_format::segment::{
    Architecture, Counter, Header, Layout, Node, NodePlace, PAGE_BYTES, SectionKind, Tier,
};

mod heap;

use super::*;
use crate::finding::FindingKind;
use crate::recording::analysis::{Evidence, findings};
use crate::recording::{EventAccounting, RawFrame, RecordingSource, Statistics};
use heap::Heap;

pub(crate) struct Memory(pub(crate) Vec<u8>);

impl RecordingSource for Memory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        len
    }
    fn unpack(&self, codec: Codec, stored: Vec<u8>, _: usize) -> Option<Vec<u8>> {
        (codec == Codec::None).then_some(stored)
    }
}

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *seed >> 33
}

/// Writes frames as the recorder does, without packing.
struct File {
    bytes: Vec<u8>,
    index: Vec<u8>,
}

impl File {
    fn new(nodes: u32) -> Self {
        let layout = Layout::new(Tier::Tiny);
        let process = ProcessId { pid: 77, starttime: 1 };
        let mut page = [0; PAGE_BYTES];
        Header::new(process, Architecture::X86_64, layout).encode(&mut page);
        let mut file = Self { bytes: preamble().to_vec(), index: Vec::new() };
        file.put(&RawFrame { header: FrameHeader::new(FrameKind::Process), payload: page.to_vec() });
        let mut counters = Vec::new();
        let counter = |counter| if counter == Counter::Nodes { nodes.into() } else { 0 };
        encode_counters(counter, &mut counters);
        file.put(&RawFrame { header: FrameHeader::new(FrameKind::Counters), payload: counters });
        let records = (0..nodes).flat_map(|number| {
            let place = NodePlace::Return(0x1000 + u64::from(number)).encode();
            let node = Node { place, parent: 0, module: 0 };
            [&node.place.to_le_bytes()[..], &node.parent.to_le_bytes(), &node.module.to_le_bytes()].concat()
        });
        let header = FrameHeader {
            number: table_number(SectionKind::Nodes).unwrap(),
            count: nodes,
            ..FrameHeader::new(FrameKind::Table)
        };
        file.put(&RawFrame { header, payload: records.collect() });
        file
    }

    fn put(&mut self, frame: &RawFrame) {
        let header = frame.header.seal(Codec::None, frame.payload.len(), &frame.payload);
        self.index.extend(IndexRow { offset: self.bytes.len() as u64, header }.encode());
        self.bytes.extend(header.encode());
        self.bytes.extend(&frame.payload);
    }

    /// Writes marks by their milliseconds.
    fn put_marks(&mut self, marks: &[(u64, u64)]) {
        let mut payload = Vec::new();
        for (index, (ms, _)) in marks.iter().enumerate() {
            let number = index as u64 + 1;
            let name = format!("mark {number}");
            MarkRow { number, time_ns: ms * 1_000_000, name: name.as_bytes() }.encode(&mut payload);
        }
        self.put(&RawFrame { header: FrameHeader::new(FrameKind::Marks), payload });
    }

    fn end(mut self) -> Vec<u8> {
        let index_offset = self.bytes.len() as u64;
        let payload = std::mem::take(&mut self.index);
        self.put(&RawFrame { header: FrameHeader::new(FrameKind::Index), payload });
        self.bytes.extend(Trailer { index_offset }.encode());
        self.bytes
    }
}

/// A block in a program's own account: its events are numbered.
#[derive(Clone, Copy)]
struct Lifetime {
    born_ms: u64,
    died_ms: Option<u64>,
    born: u64,
    died: u64,
    size: u64,
}

/// A program's own account of every block, the highest live bytes of each millisecond, and the
/// number of the first event behind each mark.
#[derive(Default)]
struct Account {
    blocks: Vec<Lifetime>,
    highest: HashMap<u64, u64>,
    marks: Vec<(u64, u64)>,
}

impl Account {
    fn live_before(&self, ms: u64) -> u64 {
        let live = |b: &&Lifetime| b.born_ms < ms && b.died_ms.is_none_or(|died| died >= ms);
        self.blocks.iter().filter(live).map(|b| b.size).sum()
    }

    /// Live bytes before an event, of blocks allocated from another one on.
    fn live_between(&self, from: u64, to: u64) -> u64 {
        let live = |b: &&Lifetime| (from..to).contains(&b.born) && b.died >= to;
        self.blocks.iter().filter(live).map(|b| b.size).sum()
    }
}

const NODES: u32 = 20;

/// Events of a whole program. Miri takes some hundred times as long, and needs to see each kind of
/// thing only a few times.
const EVENTS: u64 = if cfg!(miri) { 600 } else { 9_000 };
/// Seven a millisecond, and one more at every mark.
const END_MS: u64 = EVENTS / 7 + 23;
/// Events between frames, and between checkpoints, which follow a frame.
const FRAME_EVENTS: u64 = if cfg!(miri) { 50 } else { 100 };
const CHECKPOINT_EVENTS: u64 = if cfg!(miri) { 100 } else { 1_500 };

/// Marks of a whole program: every so many events.
const MARK_EVENTS: u64 = EVENTS / 23;

/// Runs a program of `events` events.
fn run(events: u64) -> (Account, EventAccounting, File) {
    let (mut truth, mut heap, mut file) = (Account::default(), Heap::numbered_from(1), File::new(NODES));
    let mut account = EventAccounting::default();
    let (mut seed, mut live, mut live_bytes) = (3, Vec::<(u64, usize)>::new(), 0u64);
    let mut free_addresses: Vec<u64> = (1..5000).map(|n| n * 32).collect();
    let mut extra_ms = 0;
    for step in 0..events {
        // The probe gives the events behind a mark a later millisecond.
        let is_marked = step % MARK_EVENTS == MARK_EVENTS - 1;
        extra_ms += u64::from(is_marked);
        let at = ((random(&mut seed) % 3) as u32, step / 7 + extra_ms);
        if is_marked {
            truth.marks.push((at.1, step));
            assert!(heap.add(&mut account, at, &Event::Mark(truth.marks.len() as u64)));
        }
        if !live.is_empty() && random(&mut seed) % 100 < 48 {
            let (address, block) = live.swap_remove(random(&mut seed) as usize % live.len());
            (truth.blocks[block].died_ms, truth.blocks[block].died) = (Some(at.1), step);
            live_bytes -= truth.blocks[block].size;
            assert!(heap.free(&mut account, at, address));
            free_addresses.push(address);
        } else if let Some(address) = free_addresses.pop() {
            let (node, size) = (1 + random(&mut seed) as u32 % (NODES - 1), 1 + random(&mut seed) % 500);
            live.push((address, truth.blocks.len()));
            let (born_ms, died_ms) = (at.1, None);
            truth.blocks.push(Lifetime { born_ms, died_ms, born: step, died: u64::MAX, size });
            live_bytes += size;
            heap.alloc(&mut account, at, address, (node, size, step % 50 == 0));
        }
        let highest = truth.highest.entry(at.1).or_default();
        *highest = (*highest).max(live_bytes);
        if step % FRAME_EVENTS == FRAME_EVENTS - 1 {
            account.take_frames().iter().for_each(|frame| file.put(frame));
        }
        if step % CHECKPOINT_EVENTS == CHECKPOINT_EVENTS - 1 {
            file.put(&account.checkpoint());
        }
    }
    account.take_frames().iter().for_each(|frame| file.put(frame));
    file.put_marks(&truth.marks);
    (truth, account, file)
}

fn open(bytes: Vec<u8>) -> (Recording<Memory>, Tables) {
    let recording = Recording::open(vec![Memory(bytes)]).unwrap();
    let tables = Tables::read(&recording).unwrap();
    (recording, tables)
}

fn live_bytes(tables: &Tables, counts: &Counts) -> u64 {
    tables.profile(counts).total().inuse_bytes as u64
}

#[test]
fn every_instant_agrees_with_the_program() {
    let (account, _, file) = run(EVENTS);
    let (recording, tables) = open(file.end());
    assert!(recording.is_ended());
    for ms in (0..END_MS + 14).step_by(if cfg!(miri) { 13 } else { 7 }) {
        let (counts, _) = recording.counts_at(&tables, PointInTime::At(Point::Time(ms)), 3).unwrap();
        assert_eq!(live_bytes(&tables, &counts), account.live_before(ms), "{ms} ms");
    }
    let (counts, _) = recording.counts_at(&tables, PointInTime::End, 3).unwrap();
    assert_eq!(live_bytes(&tables, &counts), account.live_before(u64::MAX));
    let allocated: u64 = account.blocks.iter().map(|block| block.size).sum();
    assert_eq!(tables.profile(&counts).total().alloc_bytes as u64, allocated);
}

#[test]
fn the_peak_is_the_programs_peak() {
    let (account, recorder, file) = run(EVENTS);
    let (recording, tables) = open(file.end());
    let (counts, ms) = recording.counts_at(&tables, PointInTime::Peak, 3).unwrap();
    let peak = account.highest.values().copied().max().unwrap();
    assert_eq!(live_bytes(&tables, &counts), peak);
    assert_eq!(account.highest[&ms], peak);
    assert_eq!(recorder.peak().0, peak);
}

#[test]
fn the_highest_of_each_step_is_the_programs() {
    let (account, _, file) = run(EVENTS);
    let (recording, tables) = open(file.end());
    let timeline = Timeline::read(&recording, 100).unwrap();
    for step in &timeline.steps {
        let range = TimeRange { from_ms: step.start_ms, to_ms: step.start_ms + 100 };
        let expected = (range.from_ms..range.to_ms).filter_map(|ms| account.highest.get(&ms)).max();
        assert_eq!(Some(&step.max_live_bytes), expected, "step at {}", step.start_ms);
        let (counts, ms) = recording.counts_at(&tables, PointInTime::Highest(range), 3).unwrap();
        assert_eq!(live_bytes(&tables, &counts), step.max_live_bytes);
        assert!((range.from_ms..range.to_ms).contains(&ms));
    }
    assert_eq!(timeline.steps.len() as u64, END_MS / 100 + 1);
}

#[test]
fn between_counts_what_was_born_inside_and_is_still_there() {
    let (account, _, file) = run(EVENTS);
    let (recording, tables) = open(file.end());
    for (from_ms, to_ms) in [(0, 2000), (100, 400), (390, 400), (390, 393), (700, 1200)] {
        let expected: u64 = account
            .blocks
            .iter()
            .filter(|b| (from_ms..to_ms).contains(&b.born_ms) && b.died_ms.is_none_or(|died| died >= to_ms))
            .map(|b| b.size)
            .sum();
        let between = |from_ms, jobs| {
            recording.counts_between(&tables, Point::Time(from_ms), Point::Time(to_ms), jobs).unwrap()
        };
        let counts = between(from_ms, 3);
        assert_eq!(live_bytes(&tables, &counts), expected, "{from_ms}..{to_ms}");
        assert_eq!(between(from_ms + 2, 1), counts, "a range begins with its row");
    }
}

#[test]
fn every_mark_agrees_with_the_program() {
    let (account, _, file) = run(EVENTS);
    let (recording, tables) = open(file.end());
    assert_eq!(tables.marks.len(), account.marks.len());
    for (mark, (_, event)) in tables.marks.iter().zip(&account.marks) {
        let at = |jobs| recording.counts_at(&tables, PointInTime::At(mark.point()), jobs).unwrap().0;
        assert_eq!(live_bytes(&tables, &at(3)), account.live_between(0, *event), "{}", mark.name);
        assert_eq!(at(1), at(3));
    }
    let beyond = PointInTime::At(Point::Mark(account.marks.len() as u64 + 1));
    let (counts, _) = recording.counts_at(&tables, beyond, 3).unwrap();
    assert_eq!(live_bytes(&tables, &counts), account.live_before(u64::MAX), "nothing comes after it");
}

#[test]
fn between_marks_is_exact() {
    let (account, _, file) = run(EVENTS);
    let (recording, tables) = open(file.end());
    let marks: Vec<_> = tables.marks.iter().zip(&account.marks).collect();
    for (first, (from, (_, from_event))) in marks.iter().enumerate() {
        for (to, (_, to_event)) in marks.iter().skip(first).step_by(3) {
            let counts = recording.counts_between(&tables, from.point(), to.point(), 2).unwrap();
            let expected = account.live_between(*from_event, *to_event);
            assert_eq!(live_bytes(&tables, &counts), expected, "{} .. {}", from.name, to.name);
            let sizes = recording.sizes_between(&tables, from.point(), to.point(), 2).unwrap();
            assert_eq!(tables.profile_by_size(&sizes).total(), tables.profile(&counts).total());
        }
    }
    let end = Point::Time(u64::MAX);
    let none = recording.counts_between(&tables, Point::Mark(1000), end, 2).unwrap();
    assert_eq!(live_bytes(&tables, &none), 0);
}

#[test]
fn a_replay_from_a_checkpoint_is_one_of_all_frames() {
    let (_, _, file) = run(EVENTS);
    let whole = file.bytes.clone();
    let (recording, tables) = open(file.end());
    let mut without = File::new(NODES);
    let rows = recording.frames().iter().filter(|frame| frame.header.kind != FrameKind::Checkpoint);
    for frame in rows.skip(3) {
        let start = frame.offset as usize + heapwise_format::recording::FRAME_HEADER_BYTES;
        let payload = whole[start..][..frame.header.stored_bytes as usize].to_vec();
        without.put(&RawFrame { header: frame.header, payload });
    }
    let (slow, _) = open(without.end());
    let times = (0..END_MS).step_by(97).map(Point::Time);
    for point in times.chain((1..20).map(Point::Mark)).map(PointInTime::At) {
        let from_checkpoint = recording.counts_at(&tables, point, 2).unwrap();
        assert_eq!(from_checkpoint, slow.counts_at(&tables, point, 1).unwrap(), "{point:?}");
    }
}

#[test]
fn sizes_are_exact() {
    let (account, _, file) = run(EVENTS);
    let (recording, tables) = open(file.end());
    for point in [PointInTime::End, PointInTime::Peak, PointInTime::At(Point::Mark(5))] {
        let (sizes, ms) = recording.sizes_at(&tables, point, 3).unwrap();
        let (counts, same_ms) = recording.counts_at(&tables, point, 3).unwrap();
        assert_eq!(ms, same_ms);
        let (by_size, by_site) = (tables.profile_by_size(&sizes), tables.profile(&counts));
        assert_eq!(by_size.total(), by_site.total());
        assert!(by_size.samples.iter().all(|sample| sample.block_bytes().is_some()));
    }
    let mut expected: HashMap<u64, (u64, u64)> = HashMap::new();
    for block in &account.blocks {
        let (allocs, live) = expected.entry(block.size).or_default();
        *allocs += 1;
        *live += u64::from(block.died_ms.is_none());
    }
    let mut counted: HashMap<u64, (u64, u64)> = HashMap::new();
    for (block, count) in recording.sizes_at(&tables, PointInTime::End, 3).unwrap().0.rows() {
        let (allocs, live) = counted.entry(block.size).or_default();
        (*allocs, *live) = (*allocs + count.allocs, *live + count.live());
    }
    assert_eq!(counted, expected);
}

#[test]
fn another_file_of_a_rotation_is_readable_alone() {
    let (account, mut recorder, _) = run(EVENTS / 2);
    let mut second = File::new(NODES);
    recorder.all_sites().iter().for_each(|frame| second.put(frame));
    second.put(&recorder.checkpoint());
    Heap::numbered_from(1 << 20).alloc(&mut recorder, (0, END_MS), 1 << 40, (1, 12_345, false));
    recorder.take_frames().iter().for_each(|frame| second.put(frame));
    let (recording, tables) = open(second.end());
    let (counts, _) = recording.counts_at(&tables, PointInTime::End, 3).unwrap();
    assert_eq!(live_bytes(&tables, &counts), account.live_before(u64::MAX) + 12_345);
    let (counts, _) = recording.counts_at(&tables, PointInTime::At(Point::Time(5)), 3).unwrap();
    assert_eq!(live_bytes(&tables, &counts), account.live_before(u64::MAX), "the base, not nothing");
}

#[test]
fn statistics_agree_with_the_program_whoever_reads_them() {
    let (account, recorder, file) = run(EVENTS);
    let (recording, tables) = open(file.end());
    let read = |jobs| Statistics::read(&recording, &tables, jobs).unwrap();
    let sums = read(1);
    assert_eq!(sums, read(4));
    let dead = account.blocks.iter().filter_map(|b| b.died_ms.map(|died| died - b.born_ms));
    let lived = (sums.sites.iter().map(|site| site.lifetime_ms).sum::<u64>(), dead.clone().sum::<u64>());
    // Errors of a row at most cancel out, the more the longer the run.
    let tolerance = lived.1 / if cfg!(miri) { 5 } else { 50 };
    assert!(lived.0.abs_diff(lived.1) <= tolerance, "{lived:?}: ages are known to the row");
    assert_eq!(
        sums.sites.iter().map(|site| site.lifetimes[0]).sum::<u64>(),
        dead.filter(|ms| *ms < 1).count() as u64
    );
    assert_eq!(sums.threads.iter().map(|t| t.allocs).sum::<u64>(), account.blocks.len() as u64);
    assert_eq!(recorder.totals().allocs, account.blocks.len() as u64);
}

#[test]
fn findings_name_the_numbers_of_the_program() {
    let (account, _, file) = run(EVENTS);
    let (recording, tables) = open(file.end());
    let timeline = Timeline::read(&recording, 100).unwrap();
    let statistics = Statistics::read(&recording, &tables, 2).unwrap();
    let (base, (peak, ms)) =
        (recording.base(&tables).unwrap(), recording.counts_at(&tables, PointInTime::Peak, 3).unwrap());
    let (_, stacks) = tables.stacks();
    let evidence = Evidence::new(&tables, &statistics, &timeline, &base, (&peak, ms), &stacks);
    let findings = findings(&evidence);
    let value = |kind, name| findings.iter().find(|f| f.kind == kind).expect("a finding").value(name);
    let highest = *account.highest.values().max().unwrap();
    assert_eq!(value(FindingKind::Peak, "bytes"), highest as f64);
    let end = account.live_before(u64::MAX);
    assert_eq!(value(FindingKind::StillHeld, "bytes"), end as f64);
    assert_eq!(value(FindingKind::Threads, "threads"), 3.0);
}

/// Reads everything there is to read; must never panic.
fn exercise(bytes: Vec<u8>) -> Option<(u64, bool)> {
    let mut recording = Recording::open(vec![Memory(bytes)]).ok()?;
    let (counts, tables) = recording.read(|recording| {
        let tables = Tables::read(recording)?;
        Timeline::read(recording, 100)?;
        recording.counts_at(&tables, PointInTime::Peak, 3)?;
        recording.counts_between(&tables, Point::Time(10), Point::Time(300), 2)?;
        recording.counts_between(&tables, Point::Mark(1), Point::Mark(3), 2)?;
        recording.sizes_at(&tables, PointInTime::Peak, 2)?;
        Ok((recording.counts_at(&tables, PointInTime::End, 3)?.0, tables))
    })?;
    let allocs = counts.rows().iter().map(|row| row.allocs).sum();
    let _ = tables.profile(&counts);
    Some((allocs, recording.damage().is_some()))
}

#[test]
fn cut_at_every_byte_everything_before_is_read_and_the_cut_reported() {
    let (account, _, file) = run(300);
    let rows = file.index.chunks_exact(INDEX_ROW_BYTES).filter_map(IndexRow::decode);
    let starts: Vec<usize> = rows.map(|row| row.offset as usize).collect();
    let open_end = file.bytes.clone();
    let whole = account.blocks.len() as u64;
    assert_eq!(exercise(file.end()), Some((whole, false)));
    assert_eq!(exercise(open_end.clone()), Some((whole, false)), "a missing index is rebuilt");
    let mut last = 0;
    // The first frame is a page that is not readable before its end. Under Miri a few cuts, where
    // the events are.
    let (first, step) = if cfg!(miri) { (open_end.len() - 600, 61) } else { (starts[1], 1) };
    for cut in (first..open_end.len()).step_by(step) {
        let (allocs, damaged) = exercise(open_end[..cut].to_vec()).unwrap();
        assert_eq!(damaged, !starts.contains(&cut), "cut at {cut}");
        assert!((last..=whole).contains(&allocs), "cut at {cut}");
        last = allocs;
    }
    assert!(last > whole / 3);
}

#[test]
fn flipped_bytes_never_panic_and_are_reported() {
    let (account, _, file) = run(300);
    let bytes = file.end();
    let whole = account.blocks.len() as u64;
    let mut seed = 11;
    for _ in 0..if cfg!(miri) { 10 } else { 1_000 } {
        let mut bad = bytes.clone();
        let at = 16 + random(&mut seed) as usize % (bytes.len() - 16);
        bad[at] ^= 1 << (random(&mut seed) % 8);
        if let Some((allocs, damaged)) = exercise(bad) {
            assert!(allocs == whole || damaged, "byte {at}: {allocs} of {whole} without a report");
        }
    }
}
