//! The merge against a model: events drawn by a simulated program with several threads.

use std::collections::HashMap;

use heapwise_format::event::{Event, EventState, MAX_EVENT_BYTES, SHARDS, shard};

use super::{Merger, Piece};

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *seed >> 33
}

fn piece(stream: u32, sequence: u32, bytes: &[u8], is_complete: bool) -> Piece<'_> {
    Piece { stream, thread: stream, sequence, bytes, is_complete, is_last: false }
}

/// A program whose threads allocate, and free each other's blocks, over few addresses; events are noted in
/// the true order and in each thread's stream, cut into chunks.
struct Program {
    truth: Vec<(u32, Event)>,
    chunks: Vec<(u32, u32, Vec<u8>)>,
}

fn program(threads: u32, events: usize, seed: u64) -> Program {
    let mut seed = seed;
    let mut orders = [0u32; SHARDS];
    let mut live: Vec<u64> = Vec::new();
    let mut streams: Vec<(EventState, Vec<u8>, u32)> =
        (0..threads).map(|_| (EventState::default(), Vec::new(), 1)).collect();
    let mut made = Program { truth: Vec::new(), chunks: Vec::new() };
    for step in 0..events {
        let thread = random(&mut seed) as u32 % threads;
        let frees = !live.is_empty() && random(&mut seed).is_multiple_of(2);
        let address = if frees {
            let at = random(&mut seed) as usize % live.len();
            live.swap_remove(at)
        } else {
            let mut fresh = || 0x5500_0000_0000 + random(&mut seed) % 64 * 16;
            let mut address = fresh();
            while live.contains(&address) {
                address = fresh() + (step as u64) * 4096;
            }
            live.push(address);
            address
        };
        let order = orders[shard(address)];
        orders[shard(address)] += 1;
        let (state, bytes, sequence) = &mut streams[thread as usize];
        let mut out = [0; MAX_EVENT_BYTES];
        if step % 97 == 0 {
            let len = EventState::encode_tick(&mut out, step as u64 / 100);
            bytes.extend_from_slice(&out[..len]);
        }
        let (event, len) = if frees {
            (Event::Free { address, order }, state.encode_free(&mut out, address, order))
        } else {
            let event = Event::Alloc { address, size: step as u64, node: thread, order, realloc: false };
            (event, state.encode_alloc(&mut out, (address, step as u64), thread, order, false))
        };
        bytes.extend_from_slice(&out[..len]);
        made.truth.push((thread, event));
        if bytes.len() > 1000 {
            made.chunks.push((thread, *sequence, std::mem::take(bytes)));
            *sequence += 1;
            *state = EventState::default();
        }
    }
    for (thread, (_, bytes, sequence)) in streams.into_iter().enumerate() {
        made.chunks.push((thread as u32, sequence, bytes));
    }
    made
}

fn per_address(events: &[(u32, Event)]) -> HashMap<u64, Vec<Event>> {
    let mut map: HashMap<u64, Vec<Event>> = HashMap::new();
    for (_, event) in events {
        if let Event::Alloc { address, .. } | Event::Free { address, .. } = event {
            map.entry(*address).or_default().push(*event);
        }
    }
    map
}

#[test]
fn every_address_sees_its_events_in_true_order() {
    for (threads, seed) in [(1, 1), (2, 2), (5, 3), (16, 4)] {
        let program = program(threads, if cfg!(miri) { 400 } else { 20_000 }, seed);
        let (mut merger, mut merged) = (Merger::from_start(), Vec::new());
        let mut last = 0;
        for (thread, sequence, bytes) in &program.chunks {
            merger.feed(piece(*thread, *sequence, bytes, true));
            merger.advance(u64::MAX, |thread, tick, event| {
                assert!(tick >= last);
                last = tick;
                merged.push((thread, *event));
            });
        }
        assert_eq!(merged.len(), program.truth.len());
        assert_eq!(per_address(&merged), per_address(&program.truth));
        assert_eq!(merger.late(), 0);
    }
}

#[test]
fn chunks_may_arrive_late_and_in_pieces() {
    let program = program(4, if cfg!(miri) { 400 } else { 5_000 }, 9);
    let (mut merger, mut merged) = (Merger::from_start(), Vec::new());
    let mut arrivals = program.chunks.clone();
    arrivals.sort_by_key(|(thread, sequence, _)| (sequence / 3, *thread, u32::MAX - sequence));
    for (thread, sequence, bytes) in &arrivals {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for (part, complete) in [(first, false), (second, true)] {
            merger.feed(piece(*thread, *sequence, part, complete));
            merger.advance(u64::MAX, |thread, _, event| merged.push((thread, *event)));
        }
    }
    assert_eq!(per_address(&merged), per_address(&program.truth));
}

#[test]
fn a_number_that_never_comes_is_skipped_on_request() {
    let program = program(3, if cfg!(miri) { 600 } else { 3_000 }, 5);
    // Thread 1 was killed with its last bytes unwritten.
    let mut chunks = program.chunks.clone();
    for (thread, _, bytes) in chunks.iter_mut().rev().filter(|chunk| chunk.0 == 1).take(1) {
        bytes.truncate(bytes.len() / 2);
        assert_eq!(*thread, 1);
    }
    let (mut merger, mut merged) = (Merger::from_start(), Vec::new());
    for (thread, sequence, bytes) in &chunks {
        merger.feed(piece(*thread, *sequence, bytes, true));
    }
    let mut waits = merger.advance(u64::MAX, |thread, _, event| merged.push((thread, *event)));
    while waits && merger.skip_missing() {
        waits = merger.advance(u64::MAX, |thread, _, event| merged.push((thread, *event)));
    }
    let lost = program.truth.len() - merged.len();
    assert!(!waits && lost > 0 && lost < 100, "{lost} lost");
}

#[test]
fn events_of_the_future_wait() {
    let program = program(2, 1_000, 6);
    let (mut merger, mut count) = (Merger::from_start(), 0);
    for (thread, sequence, bytes) in &program.chunks {
        merger.feed(piece(*thread, *sequence, bytes, true));
    }
    merger.advance(5, |_, tick, _| {
        assert!(tick < 5);
        count += 1;
    });
    assert!(count > 0 && count < 1_000);
}

#[test]
fn streams_that_ended_are_forgotten() {
    const EVENTS: usize = if cfg!(miri) { 400 } else { 2_000 };
    let program = program(3, EVENTS, 8);
    let (mut merger, mut count) = (Merger::from_start(), 0);
    let last: Vec<u32> = (0..3).map(|t| program.chunks.iter().filter(|c| c.0 == t).count() as u32).collect();
    for (thread, sequence, bytes) in &program.chunks {
        let is_last = *sequence == last[*thread as usize];
        merger.feed(Piece { is_last, ..piece(*thread, *sequence, bytes, true) });
    }
    merger.advance(u64::MAX, |_, _, _| count += 1);
    assert_eq!((count, merger.streams.len(), merger.held_bytes()), (EVENTS, 0, 0));
}

#[test]
fn what_was_before_the_recording_is_not_given_out() {
    let program = program(1, 500, 8);
    let (mut merger, mut merged) = (Merger::from_now(), Vec::new());
    let (_, _, bytes) = &program.chunks[0];
    let mut state = EventState::default();
    let mut cut = 0;
    assert!((0..10).all(|_| state.decode(bytes, &mut cut).is_some()));
    merger.feed_past(piece(0, 1, &bytes[..cut], false));
    merger.feed(piece(0, 1, &bytes[cut..], true));
    for (thread, sequence, bytes) in &program.chunks[1..] {
        merger.feed(piece(*thread, *sequence, bytes, true));
    }
    merger.advance(u64::MAX, |thread, _, event| merged.push((thread, *event)));
    assert!(program.truth.ends_with(&merged));
    assert!((485..500).contains(&merged.len()));
}

#[test]
fn joining_in_the_middle_takes_numbers_as_they_come() {
    let program = program(1, 2_000, 7);
    let (mut merger, mut merged) = (Merger::from_now(), Vec::new());
    for (thread, sequence, bytes) in program.chunks.iter().skip(3) {
        merger.feed(piece(*thread, *sequence, bytes, true));
    }
    assert!(!merger.advance(u64::MAX, |thread, _, event| merged.push((thread, *event))));
    assert!(program.truth.ends_with(&merged) && merged.len() > 1_000);
}
