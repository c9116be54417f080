//! The merge against a model: events of a simulated program with several threads that free each
//! other's blocks.

use std::collections::HashMap;

use heapwise_format::event::{
    Block, Event, Freeing, MAX_EVENT_BYTES, decode, encode_alloc, encode_free, encode_mark, encode_tick,
    encode_unknown,
};
use heapwise_format::segment::Tally;

use super::{Merger, Piece, Until};
use crate::recording::{Counts, EventAccounting};

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *seed >> 33
}

fn piece(stream: u32, sequence: u32, is_complete: bool) -> Piece {
    Piece { stream, thread: stream, sequence, is_complete, is_last: false }
}

fn feed(merger: &mut Merger, piece: Piece, bytes: &[u8]) {
    assert!(merger.feed(piece, bytes.len(), |room| {
        room.copy_from_slice(bytes);
        true
    }));
}

fn encoded(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events {
        let mut out = [0; MAX_EVENT_BYTES];
        let len = match *event {
            Event::Alloc(block) => encode_alloc(&mut out, block),
            Event::Free { block, age_ms, how } => encode_free(&mut out, block, age_ms, how),
            Event::Mark(marks) => encode_mark(&mut out, marks),
            Event::Tick(ms) => encode_tick(&mut out, ms),
            _ => encode_unknown(&mut out),
        };
        bytes.extend_from_slice(&out[..len]);
    }
    bytes
}

/// Events in the true order, and in each thread's stream, cut into chunks.
struct Program {
    truth: Vec<(u32, Event)>,
    chunks: Vec<(u32, u32, Vec<u8>)>,
}

/// Few sites of each thread and few sizes, so that many blocks are alike.
const SITES: u32 = 4;

/// A block of a thread: tallies are numbered thread by thread.
fn block(thread: u32, site: u32, size: u64) -> Block {
    Block { tally: 1 + thread * SITES + site, size, by_realloc: false }
}

/// The thread of a tally.
fn thread_of(tally: u32) -> u32 {
    (tally - 1) / SITES
}

fn before(ms: u64) -> Until {
    Until { ms, marks: u64::MAX }
}

fn program(threads: u32, events: usize, seed: u64) -> Program {
    let (mut seed, mut live) = (seed, Vec::<(Block, u64)>::new());
    let mut streams: Vec<(Vec<u8>, u32, u64)> = (0..threads).map(|_| (Vec::new(), 1, 0)).collect();
    let mut made = Program { truth: Vec::new(), chunks: Vec::new() };
    for step in 0..events {
        let thread = random(&mut seed) as u32 % threads;
        let (bytes, sequence, tick) = &mut streams[thread as usize];
        let now = step as u64 / 100;
        // Not all threads read the clock at every step.
        if *tick != now && (thread != 0 || step % 3 == 0) {
            *tick = now;
            bytes.extend(encoded(&[Event::Tick(now)]));
        }
        let event = if !live.is_empty() && random(&mut seed).is_multiple_of(2) {
            let (block, born) = live.swap_remove(random(&mut seed) as usize % live.len());
            // An age of three words now and then: older than the recording.
            let age_ms = if step % 31 == 0 { u64::MAX } else { tick.saturating_sub(born) };
            Event::Free { block, age_ms, how: Freeing::Plain }
        } else {
            let r = random(&mut seed);
            let block = block(thread, r as u32 % SITES, 1 + (r >> 8) % 3);
            live.push((block, *tick));
            Event::Alloc(block)
        };
        bytes.extend(encoded(&[event]));
        made.truth.push((thread, event));
        if bytes.len() > 1000 {
            made.chunks.push((thread, *sequence, std::mem::take(bytes)));
            *sequence += 1;
        }
    }
    for (thread, (bytes, sequence, _)) in streams.into_iter().enumerate() {
        made.chunks.push((thread as u32, sequence, bytes));
    }
    made
}

/// Takes events like the event accounting, and stores the data that the checks need.
#[derive(Default)]
struct Taker {
    merged: Vec<(u32, Event)>,
    live: HashMap<(u32, u64), i64>,
    last_ms: u64,
    /// Frees that came before their allocations.
    early: usize,
}

impl Taker {
    fn take(&mut self, thread: u32, ms: u64, event: &Event, must: bool) -> bool {
        let (block, change) = match *event {
            Event::Alloc(block) => (block, 1),
            Event::Free { block, .. } => (block, -1),
            _ => (block(0, 0, 0), 0),
        };
        let live = self.live.entry((block.tally, block.size)).or_default();
        if change < 0 && *live <= 0 {
            if !must && thread_of(block.tally) != thread {
                return false;
            }
            self.early += 1;
        }
        *live += change;
        assert!(ms >= self.last_ms, "time runs backwards");
        self.last_ms = ms;
        self.merged.push((thread, *event));
        true
    }

    /// Whether something is refused that was before `until_ms`.
    fn advance(&mut self, merger: &mut Merger, until_ms: u64) -> bool {
        let all =
            merger.advance(before(until_ms), |thread, ms, event, must| self.take(thread, ms, event, must));
        all < until_ms
    }
}

fn by_thread(events: &[(u32, Event)]) -> HashMap<u32, Vec<Event>> {
    let mut map: HashMap<u32, Vec<Event>> = HashMap::new();
    events.iter().for_each(|(thread, event)| map.entry(*thread).or_default().push(*event));
    map
}

#[test]
fn every_event_comes_out_once_and_each_threads_in_order() {
    for (threads, seed) in [(1, 1), (2, 2), (5, 3), (16, 4)] {
        let events = if cfg!(miri) { 400 } else { 20_000 };
        let program = program(threads, events, seed);
        let (mut merger, mut taker) = (Merger::from_start(), Taker::default());
        program.chunks.iter().for_each(|(thread, sequence, bytes)| {
            feed(&mut merger, piece(*thread, *sequence, true), bytes);
        });
        assert!(!taker.advance(&mut merger, u64::MAX));
        assert_eq!(by_thread(&taker.merged), by_thread(&program.truth));
        assert!(taker.live.values().all(|live| *live >= 0), "what was owed is paid in the end");
        assert!(taker.early < events / 100, "{} of {threads} threads came early", taker.early);
        if threads == 1 {
            assert_eq!(taker.merged, program.truth);
        }
    }
}

/// The record of a tally.
fn record(tally: u32) -> Option<Tally> {
    Some(Tally { node: tally, thread: thread_of(tally) as u16, ..Tally::default() })
}

#[test]
fn the_recorders_account_is_the_programs() {
    for (threads, seed) in [(2, 12), (3, 13), (9, 14)] {
        let program = program(threads, if cfg!(miri) { 900 } else { 30_000 }, seed);
        let (mut merger, mut account) = (Merger::from_start(), EventAccounting::default());
        // As the recorder does it: what is there is merged now and then, up to the time it was
        // read.
        for (read, (thread, sequence, bytes)) in program.chunks.iter().enumerate() {
            feed(&mut merger, piece(*thread, *sequence, true), bytes);
            let until_ms = if read + 1 == program.chunks.len() { u64::MAX } else { read as u64 };
            merger.advance(before(until_ms), |thread, ms, event, must| {
                account.add(thread, ms, event, must, &mut record)
            });
        }
        account.end();
        let (mut live_bytes, mut counts, mut unknown) = (0, (0, 0), 0);
        for (_, event) in &program.truth {
            match *event {
                Event::Alloc(block) => (live_bytes, counts.0) = (live_bytes + block.size, counts.0 + 1),
                Event::Free { age_ms: u64::MAX, .. } => unknown += 1,
                Event::Free { block, .. } => {
                    (live_bytes, counts.1) = (live_bytes - block.size, counts.1 + 1);
                }
                _ => {}
            }
        }
        let totals = account.totals();
        assert_eq!((totals.allocs, totals.frees, totals.unknown_frees), (counts.0, counts.1, unknown));
        assert_eq!(account.live_bytes(), live_bytes);
        let sites = 1 + (SITES * threads) as usize;
        let counted = Counts::decode(&account.checkpoint().payload, sites).unwrap();
        assert!(counted.rows().iter().all(|count| count.frees <= count.allocs));
        assert!(counted.rows().iter().all(|count| count.freed_bytes <= count.alloc_bytes));
    }
}

#[test]
fn chunks_may_arrive_late_and_in_pieces() {
    let program = program(4, if cfg!(miri) { 400 } else { 5_000 }, 9);
    let (mut merger, mut taker) = (Merger::from_start(), Taker::default());
    let mut arrivals = program.chunks.clone();
    arrivals.sort_by_key(|(thread, sequence, _)| (sequence / 3, *thread, u32::MAX - sequence));
    for (thread, sequence, bytes) in &arrivals {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for (part, complete) in [(first, false), (second, true)] {
            feed(&mut merger, piece(*thread, *sequence, complete), part);
            taker.advance(&mut merger, u64::MAX);
        }
    }
    assert_eq!(by_thread(&taker.merged), by_thread(&program.truth));
}

#[test]
fn a_piece_that_cannot_be_read_is_read_again_later() {
    let program = program(1, 100, 3);
    let (_, _, bytes) = &program.chunks[0];
    let (mut merger, mut taker) = (Merger::from_start(), Taker::default());
    assert!(!merger.feed(piece(0, 1, true), bytes.len(), |room| {
        room.fill(0xff);
        false
    }));
    assert!(!taker.advance(&mut merger, u64::MAX) && taker.merged.is_empty());
    feed(&mut merger, piece(0, 1, true), bytes);
    taker.advance(&mut merger, u64::MAX);
    assert_eq!(taker.merged, program.truth[..taker.merged.len()]);
    assert!(taker.merged.len() > 50);
}

fn free_of(thread: u32) -> Event {
    Event::Free { block: block(thread, 0, 8), age_ms: 0, how: Freeing::Plain }
}

#[test]
fn a_free_waits_for_its_block_and_not_for_ever() {
    let (mut merger, mut taker) = (Merger::from_start(), Taker::default());
    feed(&mut merger, piece(0, 1, false), &encoded(&[Event::Tick(10), free_of(1), Event::Unknown]));
    assert!(taker.advance(&mut merger, 11), "the block may come yet");
    assert_eq!(merger.advance(before(11), |_, _, _, _| false), 10);
    assert!(taker.merged.is_empty());
    feed(&mut merger, piece(1, 1, false), &encoded(&[Event::Tick(11), Event::Alloc(block(1, 0, 8))]));
    assert!(!taker.advance(&mut merger, 12));
    let expected = [(1, Event::Alloc(block(1, 0, 8))), (0, free_of(1)), (0, Event::Unknown)];
    assert_eq!((&taker.merged[..], taker.early), (&expected[..], 0));

    feed(&mut merger, piece(0, 1, false), &encoded(&[Event::Tick(20), free_of(1), Event::Unknown]));
    assert!(taker.advance(&mut merger, 21) && taker.merged.len() == 3);
    assert!(!taker.advance(&mut merger, 30), "nothing is left that it could wait for");
    assert_eq!((taker.merged.len(), taker.early), (5, 1));
}

#[test]
fn threads_that_wait_for_each_other_go_on() {
    let (mut merger, mut taker) = (Merger::from_start(), Taker::default());
    for (thread, other) in [(0, 1), (1, 0)] {
        let own = [free_of(other), Event::Alloc(block(thread, 0, 8))];
        feed(&mut merger, piece(thread, 1, true), &encoded(&own));
    }
    assert!(!taker.advance(&mut merger, 100));
    assert_eq!((taker.merged.len(), taker.early), (4, 1), "one of the two was enough");
    assert!(taker.live.values().all(|live| *live == 0));
}

#[test]
fn a_chunk_that_never_comes_is_skipped_on_request() {
    let program = program(3, if cfg!(miri) { 900 } else { 3_000 }, 5);
    let (mut merger, mut taker) = (Merger::from_start(), Taker::default());
    for (thread, sequence, bytes) in program.chunks.iter().filter(|chunk| (chunk.0, chunk.1) != (1, 2)) {
        feed(&mut merger, piece(*thread, *sequence, true), bytes);
    }
    taker.advance(&mut merger, u64::MAX);
    let before = taker.merged.len();
    while merger.skip_missing() {
        assert!(!taker.advance(&mut merger, u64::MAX));
    }
    let lost = program.truth.len() - taker.merged.len();
    assert!(taker.merged.len() > before && (60..=126).contains(&lost), "{lost} lost: a chunk's");
    assert_eq!(merger.held_bytes(), 0);
}

#[test]
fn events_of_the_future_wait() {
    let program = program(2, 1_000, 6);
    let (mut merger, mut taker) = (Merger::from_start(), Taker::default());
    for (thread, sequence, bytes) in &program.chunks {
        feed(&mut merger, piece(*thread, *sequence, true), bytes);
    }
    taker.advance(&mut merger, 5);
    assert!(taker.last_ms < 5 && !taker.merged.is_empty() && taker.merged.len() < 1_000);
}

#[test]
fn streams_that_ended_are_forgotten() {
    const EVENTS: usize = if cfg!(miri) { 400 } else { 2_000 };
    let program = program(3, EVENTS, 8);
    let (mut merger, mut taker) = (Merger::from_start(), Taker::default());
    let last: Vec<u32> = (0..3).map(|t| program.chunks.iter().filter(|c| c.0 == t).count() as u32).collect();
    for (thread, sequence, bytes) in &program.chunks {
        let is_last = *sequence == last[*thread as usize];
        feed(&mut merger, Piece { is_last, ..piece(*thread, *sequence, true) }, bytes);
    }
    taker.advance(&mut merger, u64::MAX);
    assert_eq!((taker.merged.len(), merger.streams.len(), merger.held_bytes()), (EVENTS, 0, 0));
}

#[test]
fn what_was_before_the_recording_is_not_given_out() {
    let program = program(1, 500, 8);
    let (mut merger, mut taker) = (Merger::from_now(0), Taker::default());
    let [(_, _, past), (_, _, first), rest @ ..] = &program.chunks[..] else { panic!("two chunks") };
    let mut cut = 0;
    assert!((0..10).all(|_| decode(first, &mut cut).is_some()));
    merger.skip(piece(0, 1, true), past.len());
    merger.skip(piece(0, 2, false), cut);
    feed(&mut merger, piece(0, 2, true), &first[cut..]);
    for (thread, sequence, bytes) in rest {
        feed(&mut merger, piece(*thread, *sequence, true), bytes);
    }
    assert!(!taker.advance(&mut merger, u64::MAX));
    assert!(program.truth.ends_with(&taker.merged));
    assert!((300..400).contains(&taker.merged.len()), "{}", taker.merged.len());
}

#[test]
fn joining_in_the_middle_takes_chunks_as_they_come() {
    let program = program(1, 2_000, 7);
    let (mut merger, mut taker) = (Merger::from_now(0), Taker::default());
    for (thread, sequence, bytes) in program.chunks.iter().skip(3) {
        feed(&mut merger, piece(*thread, *sequence, true), bytes);
    }
    assert!(!taker.advance(&mut merger, u64::MAX));
    assert!(program.truth.ends_with(&taker.merged) && taker.merged.len() > 1_000);
}

#[test]
fn any_bytes_are_merged_without_panic() {
    let mut seed = 5;
    for _ in 0..if cfg!(miri) { 3 } else { 200 } {
        let (mut merger, mut taker) = (Merger::from_start(), Taker::default());
        for _ in 0..20 {
            let bytes: Vec<u8> =
                (0..random(&mut seed) % 3_000).map(|_| random(&mut seed) as u8 & 0x9f).collect();
            let r = random(&mut seed) as u32;
            let place = Piece { stream: r % 3, thread: r, sequence: r >> 8 & 3, ..piece(0, 0, r & 1 == 0) };
            feed(&mut merger, Piece { is_last: r & 64 != 0, ..place }, &bytes);
            taker.last_ms = 0;
            merger.advance(Until { ms: random(&mut seed), marks: 3 }, |_, _, _, must| must);
            merger.advance(Until::END, |_, _, event, must| must || event != &Event::Unknown);
            merger.skip_missing();
        }
    }
}

/// Threads store the time when they read it, so their clocks differ; a mark is noticed by all at
/// once.
#[test]
fn events_before_a_mark_come_before_those_behind_it() {
    let (threads, events, marks) = (5, if cfg!(miri) { 300 } else { 20_000 }, 40);
    let mut seed = 77;
    let mut streams: Vec<(Vec<Event>, u64, u64)> = (0..threads).map(|_| (Vec::new(), 0, 0)).collect();
    let mut truth = Vec::new();
    for step in 0..events {
        let (now, set) = (step / 50, step * marks / events);
        let thread = random(&mut seed) % threads;
        let (stream, tick, noticed) = &mut streams[thread as usize];
        if *noticed != set {
            *noticed = set;
            stream.push(Event::Mark(set));
        }
        if *tick + random(&mut seed) % 3 < now {
            *tick = now;
            stream.push(Event::Tick(now));
        }
        let event = Event::Alloc(block(thread as u32, 0, 1 + step));
        stream.push(event);
        truth.push((set, event));
    }
    let mut merger = Merger::from_start();
    for (thread, (stream, _, _)) in streams.iter().enumerate() {
        feed(&mut merger, piece(thread as u32, 1, true), &encoded(stream));
    }
    let (mut level, mut merged) = (0, Vec::new());
    let mut take = |_: u32, _: u64, event: &Event, _: bool| {
        match *event {
            Event::Mark(marks) => {
                assert!(marks > level);
                level = marks;
            }
            event => merged.push((level, event)),
        }
        true
    };
    // What is behind marks that were set after reading began stays.
    merger.advance(Until { ms: u64::MAX, marks: marks / 2 }, &mut take);
    merger.advance(Until::END, &mut take);
    let sorted = |mut events: Vec<(u64, Event)>| {
        events.sort_by_key(|(marks, event)| (*marks, encoded(&[*event])));
        events
    };
    assert_eq!(sorted(merged), sorted(truth));
}

#[test]
fn a_mark_does_not_wait_for_ever_for_threads_that_do_not_notice_it() {
    let mut merger = Merger::from_start();
    let alloc = |thread| Event::Alloc(block(thread, 0, 8));
    feed(&mut merger, piece(0, 1, false), &encoded(&[Event::Mark(1), Event::Tick(10), alloc(0)]));
    let slow: Vec<Event> = (9..20).flat_map(|ms| [Event::Tick(ms), alloc(1)]).collect();
    feed(&mut merger, piece(1, 1, false), &encoded(&slow));
    let mut merged = Vec::new();
    merger.advance(Until::END, |thread, ms, event, _| {
        merged.push((thread, ms, *event));
        true
    });
    let mark = merged.iter().position(|(_, _, event)| *event == Event::Mark(1)).unwrap();
    assert_eq!((mark, merged[mark].1, merged[mark + 1]), (4, 12, (0, 12, alloc(0))));
    assert_eq!(merged.len(), 13);
}

#[test]
fn a_recorder_that_joins_takes_the_marks_before_as_passed() {
    let mut merger = Merger::from_now(3);
    feed(&mut merger, piece(0, 7, false), &encoded(&[Event::Mark(3), Event::Unknown, Event::Mark(4)]));
    let mut merged = Vec::new();
    let mut take = |_: u32, _: u64, event: &Event, _: bool| {
        merged.push(*event);
        true
    };
    merger.advance(Until::END, &mut take);
    feed(&mut merger, piece(0, 7, false), &encoded(&[Event::Unknown]));
    merger.advance(Until::END, &mut take);
    assert_eq!(merged, [Event::Unknown, Event::Mark(4), Event::Unknown]);
}
