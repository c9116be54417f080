//! The lock-free parts under several threads at once: natively as a stress test, and by
//! `cargo xtask miri` under an interpreter that reports data races and gives every load any value
//! that the memory model of a weakly ordered machine allows. The code under test is the probe's
//! own; only system calls are missing.
#![allow(unsafe_code)]

use std::thread;
use std::vec::Vec;

use heapwise_format::chunk::{AT_LAST, AT_PUBLISHED, AT_STATE, AT_STREAM, ChunkState, HEADER_BYTES};
use heapwise_format::event::{Block, Event, decode};
use heapwise_format::segment::{ControlWord, Counter, Mode, NO_THREAD, SectionKind};

use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::live::Live;
use crate::session::{Session, TestSession};
use crate::sites::tallies::SiteKey;
use crate::sites::{stack_tree, tallies};
use crate::{control, live, log, segment};

/// Rounds of each test: natively until races had their chance, interpreted as long as patience
/// lasts (many seeds).
const ROUNDS: u64 = if cfg!(miri) { 12 } else { 20_000 };

/// A block goes from the thread that allocated it to one that frees it, through one word, as
/// programs do it.
#[test]
fn a_block_is_found_by_whoever_frees_it() {
    let session = &*TestSession::new();
    let hand = AtomicU64::new(0);
    let insert = |address, tally| {
        assert!(matches!(
            live::insert_sample(session, address, Live { tally, size: 8 }, true),
            live::Inserted::Yes
        ));
    };
    let remove = |address| live::remove(session, address, |_| true).map(|removed| removed.block.tally);
    // All in one group, so that slots are reused and contended.
    let address = |round: u64| 0x7100_0000_0000 + round % 4 * 16 + 16;
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                insert(address(round), round as u32);
                hand.store(round, Ordering::Release);
                while hand.load(Ordering::Acquire) != 0 {
                    thread::yield_now();
                }
            }
        });
        // Another block in the same group.
        scope.spawn(|| {
            let own = 0x7100_0000_0000 + 96;
            for round in 0..ROUNDS as u32 {
                insert(own, round);
                assert_eq!(remove(own), Some(round));
            }
        });
        for _ in 1..=ROUNDS {
            let mut round = hand.load(Ordering::Acquire);
            while round == 0 {
                thread::yield_now();
                round = hand.load(Ordering::Acquire);
            }
            assert_eq!(remove(address(round)), Some(round as u32));
            hand.store(0, Ordering::Release);
        }
    });
}

/// Threads that insert the same stack get a node that holds that stack.
#[test]
fn a_node_is_whole_before_anybody_has_its_number() {
    let session = &*TestSession::new();
    let work = || {
        for round in 1..=ROUNDS {
            let place = 0x5555_0000_0000 + round % 64 * 16;
            if let Some(node) =
                stack_tree::child(session, 0, place, 1).and_then(|id| stack_tree::node(session, id))
            {
                assert_eq!((node.place, node.parent, node.module), (place, 0, 1));
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
        work();
    });
}

/// Threads that share a site get a tally that is described.
#[test]
fn a_tally_is_described_before_another_thread_has_its_number() {
    let session = &*TestSession::new();
    let work = || {
        for round in 1..=ROUNDS {
            let place = 0x5555_0000_0000 + round % 32 * 16;
            let node = stack_tree::child(session, 0, place, 1).expect("room");
            let tally = tallies::shared(session, node, 0).expect("room");
            assert_eq!(tally.counts.site(), SiteKey::new(node, 0, NO_THREAD));
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
        work();
    });
}

/// A controller's write is applied completely or not at all: depth and period come from the same
/// write.
#[test]
fn changes_are_applied_whole() {
    let session = &*TestSession::new();
    let over = AtomicBool::new(false);
    let word = |word: ControlWord| session.segment.control(word);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    control::poll(session);
                    thread::yield_now();
                }
            });
        }
        // As `capture/control.rs` writes, with the ordering that system calls give.
        for round in 1..=ROUNDS.min(2000) {
            let odd = word(ControlWord::Sequence).load(Ordering::Relaxed) | 1;
            word(ControlWord::Sequence).store(odd, Ordering::Relaxed);
            fence(Ordering::Release);
            word(ControlWord::Mode).store(Mode::Sampled as u64, Ordering::Relaxed);
            word(ControlWord::SampleBytes).store(1000 + round % 3, Ordering::Relaxed);
            word(ControlWord::MaxDepth).store(100 + round % 3, Ordering::Relaxed);
            word(ControlWord::Sequence).store(odd + 1, Ordering::Release);
            while session.segment.counter(Counter::AppliedSequence).load(Ordering::Acquire) < odd + 1 {
                thread::yield_now();
            }
            let (bytes, depth) = (session.control.sampling_distance(), session.control.depth());
            assert_eq!((bytes, u64::from(depth)), (1000 + round % 3, 100 + round % 3));
            assert_eq!(session.fork.applied(), odd + 1);
        }
        over.store(true, Ordering::Release);
    });
}

/// A reader of the log by the rules of `capture/drain/chunks.rs`: published bytes are read once, in
/// order; a full chunk is released.
struct Drainer<'a> {
    session: &'a Session,
    done: Vec<usize>,
    tallies: Vec<u32>,
}

impl Drainer<'_> {
    fn look(&mut self, used: usize) {
        self.done.resize(used, 0);
        for index in 0..used {
            let Some(chunk) = self.session.segment.existing(SectionKind::Chunks, index as u64) else {
                continue;
            };
            self.look_at(index, chunk);
        }
    }

    fn look_at(&mut self, index: usize, chunk: *mut u8) {
        // SAFETY: a chunk of the segment; these are words of its header.
        let (state, published, stream, last) = unsafe {
            (
                segment::word32(chunk, AT_STATE),
                segment::word64(chunk, AT_PUBLISHED),
                segment::word32(chunk, AT_STREAM),
                segment::word32(chunk, AT_LAST),
            )
        };
        let is_full = state.load(Ordering::Acquire) == ChunkState::Full as u32;
        let word = published.load(Ordering::Acquire);
        let len = word as u32 as usize;
        if word >> 32 == 0 {
            return;
        }
        assert_ne!(stream.load(Ordering::Relaxed), 0, "a chunk that says a sequence says whose");
        // SAFETY: published, so written before; no thread writes there before the chunk is
        // released.
        let bytes = unsafe { core::slice::from_raw_parts(chunk.add(HEADER_BYTES), len) };
        let (mut at, done) = (self.done[index], len);
        while let Some(event) = decode(bytes, &mut at) {
            if let Event::Alloc(block) = event {
                self.tallies.push(block.tally);
            }
        }
        assert_eq!(at, done, "what is published is whole events");
        self.done[index] = done;
        if is_full {
            assert_eq!(last.load(Ordering::Relaxed), 1);
            self.done[index] = 0;
            published.store(0, Ordering::Relaxed);
            state.store(ChunkState::Drained as u32, Ordering::Release);
        }
    }
}

/// Streams begin and end while a reader follows: every event arrives once, in the order of its
/// stream.
#[test]
fn every_event_arrives_once() {
    let session = &*TestSession::new();
    let writers_left = AtomicU32::new(2);
    let events = ROUNDS.min(2000);
    let lost = session.segment.counter(Counter::LostEvents).load(Ordering::Relaxed);
    let mut drainer = Drainer { session, done: Vec::new(), tallies: Vec::new() };
    thread::scope(|scope| {
        for writer in 1..=2_u32 {
            let writers_left = &writers_left;
            scope.spawn(move || {
                for round in 0..events / 4 {
                    let mut stream = log::ThreadLog::new();
                    for event in 0..4 {
                        let tally = (writer - 1) << 20 | (round * 4 + event) as u32;
                        log::alloc(session, &mut stream, 0x1000, Block { tally, size: 8, by_realloc: false });
                    }
                    log::end(&mut stream);
                    thread::yield_now();
                }
                writers_left.fetch_sub(1, Ordering::Release);
            });
        }
        loop {
            let ended = writers_left.load(Ordering::Acquire) == 0;
            let used = session.segment.counter(Counter::Chunks).load(Ordering::Relaxed) as usize;
            drainer.look(used);
            if ended {
                break;
            }
            thread::yield_now();
        }
    });
    let lost = session.segment.counter(Counter::LostEvents).load(Ordering::Relaxed) - lost;
    for writer in 0..2 {
        let of_writer = drainer.tallies.iter().filter(|tally| *tally >> 20 == writer);
        let mut sorted: Vec<u32> = of_writer.copied().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let all = drainer.tallies.iter().filter(|tally| *tally >> 20 == writer).count();
        assert_eq!(all, sorted.len(), "no event twice");
    }
    assert_eq!(drainer.tallies.len() as u64 + lost, 2 * (events / 4 * 4));
}
