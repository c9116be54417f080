//! Whole recordings in memory: a simulated program is booked, written, read back, and compared with the
//! program's own account at every millisecond.

use std::collections::HashMap;

use heapwise_format::place::Incarnation;
use heapwise_format::recording::{
    Codec, FrameHeader, FrameKind, INDEX_ROW_BYTES, IndexRow, Trailer, preamble,
};
use heapwise_format::segment::{
    Architecture, Counter, Header, Layout, Node, NodePlace, PAGE_BYTES, SectionKind, Tier,
};

mod heap;

use super::*;
use crate::recording::analysis::{Evidence, findings};
use crate::recording::{Ledger, RawFrame, RecordingSource, Statistics};
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
        let process = Incarnation { pid: 77, starttime: 1 };
        let mut page = [0; PAGE_BYTES];
        Header::new(process, Architecture::X86_64, layout).encode(&mut page);
        let mut file = Self { bytes: preamble().to_vec(), index: Vec::new() };
        file.put(&RawFrame { header: FrameHeader::new(FrameKind::Process), payload: page.to_vec() });
        let mut counters = vec![0; PAGE_BYTES];
        counters[Counter::Nodes as usize * 8] = nodes as u8;
        file.put(&RawFrame { header: FrameHeader::new(FrameKind::Counters), payload: counters });
        let records = (0..nodes).flat_map(|number| {
            let place = NodePlace::Return(0x1000 + u64::from(number)).encode();
            let node = Node { place, parent: 0, module: 0 };
            [&node.place.to_le_bytes()[..], &node.parent.to_le_bytes(), &node.module.to_le_bytes()].concat()
        });
        let header = FrameHeader {
            section: SectionKind::Nodes as u16,
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

    fn end(mut self) -> Vec<u8> {
        let index_offset = self.bytes.len() as u64;
        let payload = std::mem::take(&mut self.index);
        self.put(&RawFrame { header: FrameHeader::new(FrameKind::Index), payload });
        self.bytes.extend(Trailer { index_offset }.encode());
        self.bytes
    }
}

/// A program's own account: (born, died or none, node, size) of every block, and the highest live
/// bytes of each millisecond.
#[derive(Default)]
struct Account {
    blocks: Vec<(u64, Option<u64>, u32, u64)>,
    highest: HashMap<u64, u64>,
}

impl Account {
    fn live_before(&self, ms: u64) -> u64 {
        let live = |b: &&(u64, Option<u64>, u32, u64)| b.0 < ms && b.1.is_none_or(|died| died >= ms);
        self.blocks.iter().filter(live).map(|b| b.3).sum()
    }
}

const NODES: u32 = 20;

/// Events of a whole program. Miri takes some hundred times as long, and needs to see each kind of thing only a few times.
const EVENTS: u64 = if cfg!(miri) { 600 } else { 9_000 };
/// Seven a millisecond.
const END_MS: u64 = EVENTS / 7;
/// Events between frames, and between checkpoints, which follow a frame.
const FRAME_EVENTS: u64 = if cfg!(miri) { 50 } else { 100 };
const CHECKPOINT_EVENTS: u64 = if cfg!(miri) { 100 } else { 1_500 };

/// Runs a program of `events` events.
fn run(events: u64) -> (Account, Ledger, File) {
    let (mut account, mut heap, mut file) = (Account::default(), Heap::numbered_from(1), File::new(NODES));
    let mut ledger = Ledger::default();
    let (mut seed, mut live, mut live_bytes) = (3, Vec::<(u64, usize)>::new(), 0u64);
    let mut free_addresses: Vec<u64> = (1..5000).map(|n| n * 32).collect();
    for step in 0..events {
        let ms = step / 7;
        let thread = (random(&mut seed) % 3) as u32;
        if !live.is_empty() && random(&mut seed) % 100 < 48 {
            let (address, block) = live.swap_remove(random(&mut seed) as usize % live.len());
            account.blocks[block].1 = Some(ms);
            live_bytes -= account.blocks[block].3;
            assert!(heap.free(&mut ledger, thread, ms, address));
            free_addresses.push(address);
        } else if let Some(address) = free_addresses.pop() {
            let (node, size) = (1 + random(&mut seed) as u32 % (NODES - 1), 1 + random(&mut seed) % 5 * 100);
            live.push((address, account.blocks.len()));
            account.blocks.push((ms, None, node, size));
            live_bytes += size;
            heap.alloc(&mut ledger, thread, ms, address, (node, size, step % 50 == 0));
        }
        let highest = account.highest.entry(ms).or_default();
        *highest = (*highest).max(live_bytes);
        if step % FRAME_EVENTS == FRAME_EVENTS - 1 {
            ledger.take_frames().iter().for_each(|frame| file.put(frame));
        }
        if step % CHECKPOINT_EVENTS == CHECKPOINT_EVENTS - 1 {
            file.put(&ledger.checkpoint());
        }
    }
    ledger.take_frames().iter().for_each(|frame| file.put(frame));
    (account, ledger, file)
}

fn open(bytes: Vec<u8>) -> (Recording<Memory>, Catalog) {
    let recording = Recording::open(vec![Memory(bytes)]).unwrap();
    let catalog = Catalog::read(&recording).unwrap();
    (recording, catalog)
}

fn live_bytes(catalog: &Catalog, counts: &Counts) -> u64 {
    catalog.profile(counts).total().inuse_bytes as u64
}

#[test]
fn every_instant_agrees_with_the_program() {
    let (account, _, file) = run(EVENTS);
    let (recording, catalog) = open(file.end());
    assert!(recording.is_ended());
    for ms in (0..END_MS + 14).step_by(if cfg!(miri) { 13 } else { 7 }) {
        let (counts, _) = recording.counts_at(&catalog, Moment::Before(ms), 3).unwrap();
        assert_eq!(live_bytes(&catalog, &counts), account.live_before(ms), "{ms} ms");
    }
    let (counts, _) = recording.counts_at(&catalog, Moment::End, 3).unwrap();
    assert_eq!(live_bytes(&catalog, &counts), account.live_before(u64::MAX));
    let allocated: u64 = account.blocks.iter().map(|block| block.3).sum();
    assert_eq!(catalog.profile(&counts).total().alloc_bytes as u64, allocated);
}

#[test]
fn the_peak_is_the_programs_peak() {
    let (account, ledger, file) = run(EVENTS);
    let (recording, catalog) = open(file.end());
    let (counts, ms) = recording.counts_at(&catalog, Moment::Peak, 3).unwrap();
    let peak = account.highest.values().copied().max().unwrap();
    assert_eq!(live_bytes(&catalog, &counts), peak);
    assert_eq!(account.highest[&ms], peak);
    assert_eq!(ledger.peak().0, peak);
}

#[test]
fn the_highest_of_each_step_is_the_programs() {
    let (account, _, file) = run(EVENTS);
    let (recording, catalog) = open(file.end());
    let timeline = Timeline::read(&recording, 100).unwrap();
    for step in &timeline.steps {
        let window = Window { from_ms: step.start_ms, to_ms: step.start_ms + 100 };
        let expected = (window.from_ms..window.to_ms).filter_map(|ms| account.highest.get(&ms)).max();
        assert_eq!(Some(&step.max_live_bytes), expected, "step at {}", step.start_ms);
        let (counts, ms) = recording.counts_at(&catalog, Moment::Highest(window), 3).unwrap();
        assert_eq!(live_bytes(&catalog, &counts), step.max_live_bytes);
        assert!((window.from_ms..window.to_ms).contains(&ms));
    }
    assert_eq!(timeline.steps.len() as u64, END_MS / 100 + 1);
}

#[test]
fn between_counts_what_was_born_inside_and_is_still_there() {
    let (account, _, file) = run(EVENTS);
    let (recording, catalog) = open(file.end());
    for (from_ms, to_ms) in [(0, 2000), (100, 400), (390, 400), (390, 393), (700, 1200)] {
        let expected: u64 = account
            .blocks
            .iter()
            .filter(|b| (from_ms..to_ms).contains(&b.0) && b.1.is_none_or(|died| died >= to_ms))
            .map(|b| b.3)
            .sum();
        let counts = recording.counts_between(&catalog, Window { from_ms, to_ms }, 3).unwrap();
        assert_eq!(live_bytes(&catalog, &counts), expected, "{from_ms}..{to_ms}");
        let within = recording.counts_between(&catalog, Window { from_ms: from_ms + 2, to_ms }, 1).unwrap();
        assert_eq!(within, counts, "a window begins with its slice");
    }
}

#[test]
fn another_file_of_a_rotation_is_readable_alone() {
    let (account, mut ledger, _) = run(EVENTS / 2);
    let mut second = File::new(NODES);
    ledger.all_buckets().iter().for_each(|frame| second.put(frame));
    second.put(&ledger.checkpoint());
    Heap::numbered_from(1 << 20).alloc(&mut ledger, 0, END_MS, 1 << 40, (1, 12_345, false));
    ledger.take_frames().iter().for_each(|frame| second.put(frame));
    let (recording, catalog) = open(second.end());
    let (counts, _) = recording.counts_at(&catalog, Moment::End, 3).unwrap();
    assert_eq!(live_bytes(&catalog, &counts), account.live_before(u64::MAX) + 12_345);
    let (counts, _) = recording.counts_at(&catalog, Moment::Before(5), 3).unwrap();
    assert_eq!(live_bytes(&catalog, &counts), account.live_before(u64::MAX), "the base, not nothing");
}

#[test]
fn statistics_agree_with_the_program_whoever_reads_them() {
    let (account, ledger, file) = run(EVENTS);
    let (recording, catalog) = open(file.end());
    let read = |jobs| Statistics::read(&recording, &catalog, jobs).unwrap();
    let sums = read(1);
    assert_eq!(sums, read(4));
    let dead = account.blocks.iter().filter_map(|b| b.1.map(|died| died - b.0));
    let lived = (sums.buckets.iter().map(|b| b.lifetime_ms).sum::<u64>(), dead.clone().sum::<u64>());
    // Errors of a slice at most cancel out, the more the longer the run.
    let tolerance = lived.1 / if cfg!(miri) { 5 } else { 50 };
    assert!(lived.0.abs_diff(lived.1) <= tolerance, "{lived:?}: ages are known to the slice");
    assert_eq!(
        sums.buckets.iter().map(|b| b.lifetimes[0]).sum::<u64>(),
        dead.filter(|ms| *ms < 1).count() as u64
    );
    assert_eq!(sums.threads.iter().map(|t| t.allocs).sum::<u64>(), account.blocks.len() as u64);
    assert_eq!(ledger.totals().allocs, account.blocks.len() as u64);
}

#[test]
fn findings_name_the_numbers_of_the_program() {
    let (account, _, file) = run(EVENTS);
    let (recording, catalog) = open(file.end());
    let timeline = Timeline::read(&recording, 100).unwrap();
    let statistics = Statistics::read(&recording, &catalog, 2).unwrap();
    let (base, (peak, ms)) =
        (recording.base(&catalog).unwrap(), recording.counts_at(&catalog, Moment::Peak, 3).unwrap());
    let evidence = Evidence::new(&catalog, &statistics, &timeline, &base, (&peak, ms));
    let findings = findings(&evidence);
    let headline = |name| findings.iter().find(|f| f.name == name).map_or("", |f| f.headline.as_str());
    let highest = account.highest.values().max().unwrap();
    assert!(headline("peak").starts_with(&format!("{highest} bytes were live")), "{}", headline("peak"));
    let end = account.live_before(u64::MAX);
    assert!(headline("left over").starts_with(&format!("{end} bytes in")), "{}", headline("left over"));
    assert!(headline("threads").contains("3 threads allocated"), "{}", headline("threads"));
}

/// Reads everything there is to read; must never panic.
fn exercise(bytes: Vec<u8>) -> Option<(u64, bool)> {
    let mut recording = Recording::open(vec![Memory(bytes)]).ok()?;
    let (counts, catalog) = recording.read(|recording| {
        let catalog = Catalog::read(recording)?;
        Timeline::read(recording, 100)?;
        recording.counts_at(&catalog, Moment::Peak, 3)?;
        recording.counts_between(&catalog, Window { from_ms: 10, to_ms: 300 }, 2)?;
        Ok((recording.counts_at(&catalog, Moment::End, 3)?.0, catalog))
    })?;
    let allocs = counts.rows().iter().map(|row| row.allocs).sum();
    let _ = catalog.profile(&counts);
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
    // The first frame is a page that says nothing before its end. Under Miri a few cuts, where the events are.
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
