//! The entries of single events, and invariants of any events.

use std::collections::HashMap;

use heapwise_format::event::{
    MAX_EVENT_BYTES, decode, encode_alloc, encode_free, encode_gap, encode_unknown,
};
use heapwise_format::recording::{Age, Entries, SIZE_SLOTS};
use heapwise_format::segment::NO_THREAD;

use super::*;
use crate::recording::Counts;

/// Node and thread of each tally; 0 is unused.
const TALLIES: [(u32, u16); 7] = [(0, 0), (7, 1), (7, 1), (7, 2), (8, 1), (7, NO_THREAD), (9, 0)];

/// The record of a tally, if there is one.
fn describe(tally: u32) -> Option<Tally> {
    let (node, thread) = *TALLIES.get(tally as usize)?;
    Some(Tally { node, thread, ..Tally::default() })
}

fn block(tally: u32, size: u64) -> Block {
    Block { tally, size, by_realloc: false }
}

fn by_realloc(tally: u32, size: u64) -> Block {
    Block { by_realloc: true, ..block(tally, size) }
}

#[derive(Default)]
struct Recorder {
    account: EventAccounting,
    frames: Vec<RawFrame>,
}

impl Recorder {
    fn add(&mut self, thread: u32, ms: u64, event: Event) -> bool {
        self.account.add(thread, ms, &event, false, &mut describe)
    }

    fn alloc(&mut self, thread: u32, ms: u64, block: Block) {
        assert!(self.add(thread, ms, Event::Alloc(block)));
    }

    fn free(&mut self, thread: u32, ms: u64, block: Block, how: Freeing) -> bool {
        self.add(thread, ms, Event::Free { block, age_ms: 0, how })
    }

    fn must_free(&mut self, thread: u32, ms: u64, block: Block, how: Freeing) {
        let event = Event::Free { block, age_ms: 0, how };
        assert!(self.account.add(thread, ms, &event, true, &mut describe));
    }

    fn take(&mut self) {
        let frames = self.account.take_frames();
        self.frames.extend(frames);
    }

    /// All entries, and the recording's sites.
    fn read(&mut self) -> (Vec<Entry>, Vec<Site>) {
        self.take();
        let (mut entries, mut sites) = (Vec::new(), Vec::new());
        for RawFrame { header, payload } in &self.frames {
            match header.kind {
                FrameKind::Events => entries.extend(Entries::new(payload, vec![0; SIZE_SLOTS]).unwrap()),
                FrameKind::Sites => {
                    let mut at = 0;
                    sites.extend(std::iter::from_fn(|| Site::decode(payload, &mut at)));
                }
                _ => {}
            }
        }
        (entries, sites)
    }
}

fn site(site: u32, size: u64) -> SiteBlock {
    SiteBlock { site, size }
}

fn fresh(number: u32, size: u64) -> Entry {
    Entry::Alloc { block: site(number, size), kind: AllocKind::Fresh }
}

fn freed(number: u32, size: u64) -> Entry {
    Entry::Free { block: site(number, size), age: Age::INSTANT }
}

use Freeing::{AtOnce, Missed, Plain};

#[test]
fn tallies_of_one_stack_and_thread_are_one_site() {
    let mut recorder = Recorder::default();
    for (thread, tally) in [(1, 1), (1, 2), (2, 3), (1, 4), (77, 5)] {
        recorder.alloc(thread, 0, block(tally, 100));
    }
    assert!(recorder.free(1, 0, block(2, 100), Plain) && recorder.free(1, 0, block(2, 100), Plain));
    let (_, sites) = recorder.read();
    let expected = [(7, 1), (7, 2), (8, 1), (7, NO_THREAD)].map(|(node, thread)| Site { node, thread });
    assert_eq!(sites, expected);
    assert_eq!((recorder.account.live_bytes(), recorder.account.peak()), (300, (500, 0)));
}

#[test]
fn sizes_of_a_site_may_differ() {
    let mut recorder = Recorder::default();
    [10, 2000, 0, 1 << 40].iter().for_each(|size| recorder.alloc(1, 0, block(1, *size)));
    assert!(recorder.free(1, 0, block(1, 2000), Plain));
    assert_eq!(recorder.read().0[3..], [fresh(1, 1 << 40), freed(1, 2000)]);
    assert_eq!(recorder.account.live_bytes(), 10 + (1 << 40));
    let counts = Counts::decode(&recorder.account.checkpoint().payload, 2).unwrap();
    assert_eq!((counts.rows()[1].live(), counts.rows()[1].live_bytes()), (3, 10 + (1 << 40)));
}

#[test]
fn a_realloc_is_a_free_and_an_allocation_by_its_kind() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, block(1, 8));
    recorder.alloc(1, 0, by_realloc(1, 8)); // of no block
    assert!(recorder.free(1, 0, block(1, 8), Plain));
    recorder.alloc(2, 0, block(4, 8)); // another thread between the two events
    recorder.alloc(1, 0, by_realloc(1, 8)); // of a block by malloc
    assert!(recorder.free(1, 0, by_realloc(1, 8), Plain));
    recorder.alloc(1, 0, by_realloc(1, 8)); // of a block by realloc
    assert!(recorder.free(1, 0, by_realloc(1, 8), AtOnce));
    recorder.alloc(1, 0, by_realloc(1, 8));
    let kinds: Vec<Entry> = recorder.read().0.into_iter().filter(|entry| *entry != freed(1, 8)).collect();
    let alloc = |kind| Entry::Alloc { block: site(1, 8), kind };
    let expected = [
        fresh(1, 8),
        fresh(1, 8),
        Entry::Thread(2),
        fresh(2, 8),
        Entry::Thread(1),
        alloc(AllocKind::FirstRealloc),
        Entry::Temporary { block: site(1, 8), kind: AllocKind::NextRealloc },
        alloc(AllocKind::NextRealloc),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn only_blocks_freed_at_once_are_temporary() {
    let mut recorder = Recorder::default();
    let temporary = Entry::Temporary { block: site(1, 9), kind: AllocKind::Fresh };
    recorder.alloc(0, 5, block(6, 9));
    assert!(recorder.free(0, 5, block(6, 9), AtOnce));
    recorder.alloc(0, 5, block(6, 9));
    assert!(recorder.free(0, 5, block(6, 9), Plain), "another one of the site");
    recorder.alloc(0, 5, block(6, 9));
    assert!(recorder.add(0, 6, Event::Free { block: block(6, 9), age_ms: 1, how: AtOnce }), "later");
    recorder.alloc(0, 6, block(6, 9));
    recorder.take();
    assert!(recorder.free(0, 6, block(6, 9), AtOnce), "it is in a frame already");
    let later = Entry::Free { block: site(1, 9), age: Age::between(5, 6) };
    let (alloc, free) = (fresh(1, 9), freed(1, 9));
    assert_eq!(recorder.read().0, [temporary, alloc, free, alloc, Entry::Tick(1), later, alloc, free]);
    assert_eq!(recorder.account.live_bytes(), 0);
}

#[test]
fn missed_and_unknown_frees_are_told_apart() {
    let mut recorder = Recorder::default();
    recorder.alloc(0, 30, block(6, 5));
    assert!(recorder.add(0, 60, Event::Free { block: block(6, 5), age_ms: 30, how: Missed }));
    assert!(recorder.add(0, 60, Event::Unknown));
    for age_ms in [61, heapwise_format::event::UNKNOWN_AGE] {
        let older = Event::Free { block: block(6, 5), age_ms, how: Plain };
        assert!(recorder.add(0, 60, older), "older than the recording");
    }
    assert!(recorder.add(0, 60, Event::Gap(5)));
    let totals = recorder.account.totals();
    assert_eq!((totals.unknown_frees, totals.missed_frees, totals.gap_events), (3, 1, 5));
    let missed = Entry::MissedFree { block: site(1, 5), age: Age::between(30, 60) };
    let unknown = Entry::UnknownFree(1);
    assert!(recorder.read().0.ends_with(&[missed, unknown, unknown, unknown, Entry::Gap(5)]));
    assert_eq!((recorder.account.totals().frees, recorder.account.live_bytes()), (1, 0));
}

#[test]
fn tallies_without_a_record_count_as_missing() {
    let mut recorder = Recorder::default();
    for tally in [0, 7, (1 << 25) - 1] {
        recorder.alloc(1, 0, block(tally, 1));
        assert!(recorder.free(1, 0, block(tally, 1), AtOnce) && recorder.free(2, 0, block(tally, 1), Plain));
    }
    let (entries, sites) = recorder.read();
    assert_eq!(entries[..2], [Entry::Gap(1), Entry::UnknownFree(1)]);
    let totals = Totals { unknown_frees: 6, gap_events: 3, ..Totals::default() };
    assert_eq!((sites.len(), recorder.account.totals()), (0, totals));
}

#[test]
fn a_free_before_its_allocation_waits_or_becomes_pending() {
    let mut recorder = Recorder::default();
    assert!(!recorder.free(1, 4, block(3, 100), Plain), "it can wait");
    assert_eq!(recorder.read().0, [], "nothing was added");
    recorder.must_free(1, 4, block(3, 100), Plain);
    assert!(recorder.free(1, 4, block(4, 8), Plain), "a free of the thread's own block does not wait");
    recorder.alloc(2, 5, block(3, 99));
    recorder.alloc(2, 5, block(3, 100));
    recorder.alloc(1, 5, block(4, 8));
    let (entries, sites) = recorder.read();
    assert_eq!(sites.iter().map(|site| site.thread).collect::<Vec<_>>(), [2, 1]);
    let (one, two) = (Entry::Thread(1), Entry::Thread(2));
    let pending = [fresh(1, 99), fresh(1, 100), one, freed(1, 100), two, one, fresh(2, 8), freed(2, 8)];
    assert!(entries.ends_with(&pending), "{entries:?}");
    assert_eq!((recorder.account.live_bytes(), recorder.account.totals().frees), (99, 2));
}

#[test]
fn a_free_waits_if_the_live_blocks_cannot_include_it() {
    let mut recorder = Recorder::default();
    recorder.alloc(2, 0, block(3, 10));
    assert!(!recorder.free(1, 0, block(3, 11), Plain), "larger than all");
    assert!(!recorder.free(1, 0, block(3, 9), Plain), "not the only one");
    recorder.alloc(2, 0, block(3, 10));
    assert!(!recorder.free(1, 0, block(3, 21), Plain));
    assert!(recorder.free(1, 0, block(3, 10), Plain) && recorder.free(1, 0, block(3, 10), Plain));
    assert!(!recorder.free(1, 0, block(3, 0), Plain), "none is left");
}

#[test]
fn pending_frees_expire() {
    let mut recorder = Recorder::default();
    recorder.must_free(1, 4, block(3, 100), Missed);
    recorder.must_free(1, 900, block(3, 100), Plain);
    recorder.account.pass(1000);
    assert_eq!(recorder.account.totals().unknown_frees, 0);
    recorder.account.pass(1100);
    assert_eq!(recorder.account.totals().unknown_frees, 1);
    recorder.alloc(2, 1100, block(3, 100));
    recorder.must_free(1, 1100, block(3, 100), Plain);
    recorder.account.end();
    let totals = recorder.account.totals();
    assert_eq!((totals.unknown_frees, totals.frees, recorder.account.live_bytes()), (2, 1, 0));
}

#[test]
fn marks_are_entries_and_ages_across_them_are_exact() {
    let mut recorder = Recorder::default();
    let free = |age_ms| Event::Free { block: block(6, 5), age_ms, how: Plain };
    (0..4).for_each(|_| recorder.alloc(0, 21, block(6, 5)));
    assert!(recorder.add(0, 25, Event::Mark(2)));
    recorder.alloc(0, 28, block(6, 5));
    assert!(recorder.add(0, 28, free(7)) && recorder.add(0, 28, free(0)));
    recorder.take();
    assert_eq!(recorder.frames.last_chunk::<2>().unwrap()[0].header.marks(), 0);
    assert!(recorder.add(0, 28, Event::Mark(1)), "it is behind it already");
    assert!(recorder.add(0, 95, free(74)) && recorder.add(0, 95, free(65)));
    assert_eq!(recorder.account.checkpoint().header.marks(), 2);
    let (entries, _) = recorder.read();
    assert_eq!(recorder.frames.last_chunk::<2>().unwrap()[0].header.marks(), 2);
    let freed_at = |age| Entry::Free { block: site(1, 5), age };
    let expected = [
        Entry::Tick(4),
        Entry::Mark(2),
        Entry::Tick(3),
        fresh(1, 5),
        freed_at(Age::exact(21, 28)),
        freed_at(Age::INSTANT),
        freed_at(Age::exact(21, 95)),
        freed_at(Age::between(30, 95)),
    ];
    assert_eq!(entries[4..], expected);
}

#[test]
fn many_sites_are_found_again() {
    let (mut account, mut seen) = (EventAccounting::default(), HashMap::new());
    let mut seed = 1u64;
    for _ in 0..if cfg!(miri) { 3_000 } else { 100_000 } {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let tally = 1 + (seed >> 33) as u32 % 40_000;
        let thread = (tally % 8) as u16;
        let record = |tally: u32| Some(Tally { node: tally / 16, thread, ..Tally::default() });
        assert!(account.add(thread.into(), 0, &Event::Alloc(block(tally, 3)), false, &mut { record }));
        *seen.entry(Site { node: tally / 16, thread }).or_insert(0u64) += 1;
    }
    let counts = account.sites.counts();
    for (site, count) in account.sites.from(0).iter().zip(counts.rows()).skip(1) {
        assert_eq!(seen.remove(site), Some(count.allocs));
    }
    assert!(seen.is_empty());
}

#[test]
fn any_events_leave_an_account_that_balances() {
    let mut seed = 9u64;
    for round in 0..if cfg!(miri) { 2 } else { 50 } {
        let (mut recorder, mut counts, mut ms) = (Recorder::default(), Counts::default(), 0);
        for _ in 0..if cfg!(miri) { 200 } else { 4_000 } {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let word = seed >> 60 << 60 | (seed >> 45 & 7) << 42 | (seed >> 40 & 3) << 25 | seed >> 20 & 7;
            let more = [word, u64::MAX >> (round % 60), seed >> 50 & 3];
            let bytes: Vec<u8> = more.iter().flat_map(|word| word.to_le_bytes()).collect();
            let Some(event) = decode(&bytes, &mut 0) else { continue };
            ms += u64::from(seed >> 56 & 15 == 0) * 50;
            let (thread, must) = ((seed >> 45) as u32 & 3, seed >> 50 & 1 == 0);
            recorder.account.add(thread, ms, &event, must, &mut describe);
        }
        recorder.account.end();
        for entry in &recorder.read().0 {
            counts.add(entry);
            let is_right = |count: &crate::recording::Count| {
                count.frees <= count.allocs && (count.live() > 0 || count.alloc_bytes == count.freed_bytes)
            };
            assert!(counts.rows().iter().all(is_right));
        }
        let totals = recorder.account.totals();
        assert_eq!(counts.rows().iter().map(|count| count.allocs).sum::<u64>(), totals.allocs);
        assert_eq!(counts.rows().iter().map(|count| count.frees).sum::<u64>(), totals.frees);
        let checkpoint = recorder.account.checkpoint();
        assert_eq!(Counts::decode(&checkpoint.payload, counts.rows().len()), Some(counts));
    }
}

/// Random events of one thread, as the probe writes them: a block may be freed at once.
fn stream(seed: &mut u64, events: usize) -> Vec<u8> {
    let (mut bytes, mut out, mut live) = (Vec::new(), [0; MAX_EVENT_BYTES], Vec::new());
    let mut random = || {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *seed >> 33
    };
    for row in 0..events {
        let size = (random() % 3) << (random() % 9 * 2);
        let block = Block { tally: 1 + random() as u32 % 6, size, by_realloc: random() % 5 == 0 };
        let len = match random() % 8 {
            0..4 => {
                let len = encode_alloc(&mut out, block);
                live.push(block);
                if random() % 2 == 0 {
                    bytes.extend_from_slice(&out[..len]);
                    let how = if random() % 3 > 0 { Freeing::AtOnce } else { Freeing::Plain };
                    encode_free(&mut out, live.pop().unwrap_or(block), random() % 2, how)
                } else {
                    len
                }
            }
            4 if row % 16 == 0 => encode_gap(&mut out, 3),
            5 if row % 16 == 0 => encode_unknown(&mut out),
            _ if live.is_empty() => 0,
            _ => {
                let block = live.swap_remove(random() as usize % live.len());
                let how = if random() % 9 == 0 { Freeing::Missed } else { Freeing::Plain };
                encode_free(&mut out, block, random() % 400_000, how)
            }
        };
        bytes.extend_from_slice(&out[..len]);
    }
    bytes
}

/// A run of events leaves what its events leave one by one.
#[test]
fn runs_are_as_single_events() {
    let mut seed = 3;
    for _ in 0..if cfg!(miri) { 2 } else { 200 } {
        let bytes = stream(&mut seed, 500);
        let (mut one_by_one, mut in_runs) = (Recorder::default(), Recorder::default());
        let mut at = 0;
        let events: Vec<(Event, usize)> =
            std::iter::from_fn(|| decode(&bytes, &mut at).map(|event| (event, at))).collect();
        for (recorder, has_runs) in [(&mut one_by_one, false), (&mut in_runs, true)] {
            // Threads and milliseconds change every 100 and 70 events.
            let mut row = 0;
            while let Some((event, end)) = events.get(row) {
                let (thread, ms) = (row as u32 / 100 % 2, (1 + row as u64 / 70) * 300_000);
                recorder.account.add(thread, ms, event, true, &mut describe);
                let next = (row / 100 + 1) * 100;
                let last = next.min((row / 70 + 1) * 70).min(events.len()) - 1;
                let run = &bytes[*end..events[last].1];
                let run = if has_runs { recorder.account.add_run(thread, ms, run) } else { 0 };
                row = 1 + events.partition_point(|(_, place)| *place < end + run);
            }
            recorder.account.end();
            recorder.take();
        }
        assert_eq!(one_by_one.account.totals(), in_runs.account.totals());
        assert_eq!(one_by_one.frames, in_runs.frames);
    }
}

/// The size of a frame is looked at now and then; here every other entry is a change of threads.
#[test]
fn frames_stay_small_when_threads_take_turns() {
    for first in [1, 2] {
        let mut recorder = Recorder::default();
        (0..first).for_each(|_| recorder.alloc(9, 0, block(1, 1)));
        let events = if cfg!(miri) { 0 } else { 1_200_000 };
        (0..events).for_each(|event| recorder.alloc(event % 2, 0, block(1, 1)));
        recorder.take();
        let frames = recorder.frames.iter().filter(|frame| frame.header.kind == FrameKind::Events);
        assert!(frames.clone().all(|frame| frame.payload.len() < 11 << 18), "{first}");
        assert!(cfg!(miri) || frames.count() > 1, "{first}");
    }
}
