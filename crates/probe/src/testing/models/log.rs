//! The log: threads that fill chunks, and a drainer that reads them.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use heapwise_format::chunk::{HEADER_BYTES, Published, look, release_chunk};
use heapwise_format::event::{Block, Event, decode};
use heapwise_format::segment::{
    COUNTERS_OFFSET, ControlWord, Counter, SectionKind, SegmentSource, tick as segment_tick,
};

use super::outside::Outside;
use super::{check, together};
use crate::atomics::Ordering;
use crate::log;
use crate::session::Session;

/// One stream, from its first event to its last.
fn write(session: &Session, tallies: &[u32]) {
    let mut stream = log::ThreadLog::new();
    for tally in tallies {
        log::alloc(session, &mut stream, 0x1000, Block { tally: *tally, size: 8, by_realloc: false });
    }
    log::end(&mut stream);
}

/// How far the chunks are read, as `capture/drain/chunks.rs` keeps it, and what was read of each
/// stream.
struct Drainer {
    session: &'static Session,
    done: Vec<usize>,
    streams: BTreeMap<u32, Vec<u32>>,
    complete: usize,
}

impl Drainer {
    fn first_look(session: &'static Session) -> Self {
        let mut drainer = Self { session, done: Vec::new(), streams: BTreeMap::new(), complete: 0 };
        drainer.look();
        drainer
    }

    fn look(&mut self) {
        let mut word = [0; 8];
        Outside(self.session).read_at((COUNTERS_OFFSET + Counter::Chunks as usize * 8) as u64, &mut word);
        let used = u64::from_le_bytes(word) as usize;
        self.done.resize(used.max(self.done.len()), 0);
        (0..used).for_each(|index| self.look_at(index));
    }

    fn look_at(&mut self, index: usize) {
        let outside = Outside(self.session);
        let section = self.session.segment.section(SectionKind::Chunks);
        let offset = section.record_offset(index as u64).expect("in use");
        let Some(Published { header, is_complete }) = look(&outside, offset) else { return };
        assert_ne!(header.stream, 0, "a chunk that says a sequence says whose");
        let done = self.done[index];
        let mut bytes = vec![0; header.len.saturating_sub(done)];
        outside.read_at(offset + (HEADER_BYTES + done) as u64, &mut bytes);
        let mut at = 0;
        let tallies = self.streams.entry(header.stream).or_default();
        while let Some(event) = decode(&bytes, &mut at) {
            if let Event::Alloc(block) = event {
                tallies.push(block.tally);
            }
        }
        assert_eq!(at, bytes.len(), "what is published is whole events");
        self.done[index] += at;
        if is_complete {
            assert!(header.is_last, "who leaves a full chunk says why");
            self.done[index] = 0;
            self.complete += 1;
            release_chunk(&outside, offset).expect("writable");
        }
    }

    fn read(&self) -> Vec<&[u32]> {
        self.streams.values().map(Vec::as_slice).collect()
    }
}

/// The clock is stopped, and the first chunk has been used: its page is populated.
fn prepare(session: &'static Session) {
    session.segment.control(ControlWord::DrainHeartbeat).store(u64::MAX, Ordering::Relaxed);
    Drainer::first_look(session);
    write(session, &[0x10]);
    Drainer::first_look(session);
}

/// A drainer follows a thread: every event arrives once and whole.
///
/// For `ThreadLog::publish` and `chunk_alloc::leave` (release) and the fence of `Outside::read_at`
/// (acquire).
#[test]
fn every_event_arrives_once() {
    check(prepare, |session| {
        let ((), mut drainer) =
            together(move || write(session, &[0x1010, 0x1020]), move || Drainer::first_look(session));
        drainer.look();
        assert_eq!(drainer.read(), [&[0x1010, 0x1020]]);
        assert_eq!(drainer.complete, 1);
    });
}

/// A chunk that the drainer releases may be claimed by another thread at once: no thread writes to
/// bytes that are still being read, and the drainer does not mix the old stream with the new one.
///
/// For the fence of `Outside::write_at` (release) and `chunk_alloc::claim` (acquire).
#[test]
fn a_chunk_is_let_go_when_it_is_read() {
    let prepare = |session| {
        prepare(session);
        write(session, &[0x1010]);
    };
    check(prepare, |session| {
        let ((), mut drainer) =
            together(move || write(session, &[0x2010]), move || Drainer::first_look(session));
        drainer.look();
        assert_eq!(drainer.read(), [&[0x1010], &[0x2010]]);
        assert_eq!(drainer.complete, 2);
    });
}

/// Two threads never have the same chunk.
///
/// For the exchange in `chunk_alloc::claim`: with a load and a store, both take what is free.
#[test]
fn a_chunk_has_one_writer() {
    check(prepare, |session| {
        together(move || write(session, &[0x1010]), move || write(session, &[0x2010]));
        let drainer = Drainer::first_look(session);
        let mut read = drainer.read();
        read.sort();
        assert_eq!(read, [&[0x1010], &[0x2010]]);
    });
}

/// No event gets a time in the future, even when the drainer was late and the tick is old.
///
/// For the fences of `Outside::write_at` (release) and `log::time_at` (acquire).
#[test]
fn no_time_is_yet_to_come() {
    const MS: u64 = 1_000_000;
    let tick = |session, ms: u64| segment_tick(&Outside(session), ms, ms * MS).expect("writable");
    check(
        move |session| tick(session, 5),
        move |session| {
            let ((), time) = together(
                move || tick(session, 20),
                move || log::time_at(session, 21 * MS, log::tick(session)),
            );
            assert!((5..=21).contains(&time), "{time}");
        },
    );
}
