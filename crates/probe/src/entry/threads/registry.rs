//! The threads of the process: their records in the segment, and states of ended threads for reuse.
//!
//! A tally belongs to a thread record. A new thread continues with the state, the record and the
//! tallies of an ended one of the same name, so that the threads of a pool add up under one name,
//! and a program that constantly starts threads does not use more and more memory.

use heapwise_format::bytes::set_text;
use heapwise_format::segment::{Counter, NO_THREAD, SectionKind, Thread, ThreadState};

use super::State;
use super::live_bytes::LiveBytes;
use crate::atomics::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::jemalloc::options::options;
use crate::session::Session;
use crate::sys;

/// States kept for reuse.
const KEPT: usize = 64;

/// The state of an ended thread, and its name as two words.
struct Slot {
    state: AtomicPtr<State>,
    name: [AtomicU64; 2],
}

/// Threads that have a state, and states for reuse. Zeroed memory is valid: none.
pub(crate) struct Registry {
    /// Threads that have a state.
    live: AtomicU32,
    pool: [Slot; KEPT],
    pub(crate) live_bytes: LiveBytes,
}

impl Registry {
    /// Threads that have a state, at least 1.
    pub(super) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed).max(1).into()
    }
}

/// Unmaps the states that no thread uses.
pub(crate) fn release_pool(session: &Session) {
    for slot in &session.threads.pool {
        if let Some(state) = slot.take() {
            State::destroy(session, state);
        }
    }
}

type Name = [u64; 2];

fn current_name() -> Name {
    let bytes = u128::from_le_bytes(sys::thread_name());
    [bytes as u64, (bytes >> 64) as u64]
}

impl Slot {
    fn name(&self) -> Name {
        [self.name[0].load(Ordering::Relaxed), self.name[1].load(Ordering::Relaxed)]
    }

    /// Takes the state out, if there is one.
    fn take(&self) -> Option<*mut State> {
        let state = self.state.swap(core::ptr::null_mut(), Ordering::Acquire);
        (!state.is_null()).then_some(state)
    }

    /// Puts a state in, if there is none.
    fn put(&self, state: *mut State, name: Name) -> bool {
        let empty = core::ptr::null_mut();
        let is_put = self.state.compare_exchange(empty, state, Ordering::Release, Ordering::Relaxed).is_ok();
        if is_put {
            // Another thread may take the state before: then the slot is empty, and its name means
            // nothing.
            for (word, value) in self.name.iter().zip(name) {
                word.store(value, Ordering::Relaxed);
            }
        }
        is_put
    }
}

/// A state for the calling thread; `None` without memory.
pub(crate) fn acquire(session: &Session) -> Option<*mut State> {
    let name = current_name();
    let Registry { live, pool, .. } = &session.threads;
    live.fetch_add(1, Ordering::Relaxed);
    let same = pool.iter().find_map(|slot| if slot.name() == name { slot.take() } else { None });
    if let Some(state) = same {
        if State::continues(session, state, name) {
            return Some(state);
        }
        State::destroy(session, state);
    }
    let state = State::create(session, new_record(session), name);
    if state.is_none() {
        live.fetch_sub(1, Ordering::Relaxed);
        session.segment.count(Counter::LostThreads);
    }
    state
}

/// The thread of a state has ended.
pub(crate) fn release(session: &Session, state: *mut State) {
    let Registry { live, pool, .. } = &session.threads;
    live.fetch_sub(1, Ordering::Relaxed);
    let name = State::end(session, state);
    if !pool.iter().any(|slot| slot.put(state, name)) {
        State::destroy(session, state);
    }
}

fn new_record(session: &Session) -> Option<u32> {
    let segment = &session.segment;
    let capacity = segment.section(SectionKind::Threads).capacity.min(NO_THREAD.into());
    let claim = |used: u64| (used < capacity).then_some(used + 1);
    let threads = segment.counter(Counter::Threads);
    let record = threads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok();
    if record.is_none() {
        segment.count(Counter::LostThreads);
    }
    record.map(|record| record as u32)
}

/// Writes the record of the calling thread.
pub(super) fn describe(session: &Session, record: u32, state: ThreadState) {
    let segment = &session.segment;
    let now = u64::from(segment.age_ms());
    let mut name = [0; 32];
    for (to, from) in name.iter_mut().zip(sys::thread_name()) {
        *to = from;
    }
    let before = read(session, record);
    let (born_ms, ended_ms) = match (state, &before) {
        (ThreadState::Ended, Some(before)) => (before.born_ms, now),
        _ => (now, 0),
    };
    let mut thread = Thread { tid: sys::tid(), state: state as u32, named: 0, born_ms, ended_ms, name };
    if let (ThreadState::Ended, Some(before)) = (state, before)
        && before.named != 0
    {
        // The name that the program gave it stays.
        (thread.named, thread.name) = (1, before.name);
    }
    segment.write(SectionKind::Threads, u64::from(record), thread);
}

/// A thread's record.
pub(crate) fn read(session: &Session, record: u32) -> Option<Thread> {
    session.segment.read(SectionKind::Threads, u64::from(record))
}

/// The program names a thread.
pub(super) fn rename(session: &Session, record: u32, name: &[u8]) {
    if let Some(before) = read(session, record) {
        let mut thread = Thread { named: 1, ..before };
        set_text(&mut thread.name, name);
        session.segment.write(SectionKind::Threads, u64::from(record), thread);
    }
}

/// Thread records in use.
pub(crate) fn used(session: &Session) -> u32 {
    let capacity = session.segment.section(SectionKind::Threads).capacity;
    session.segment.counter(Counter::Threads).load(Ordering::Acquire).min(capacity) as u32
}

/// The name that dumps have: the program's, or where that is wanted the system's.
pub(crate) fn name_in_dumps(session: &Session, record: u32) -> Option<[u8; 32]> {
    read(session, record)
        .filter(|thread| thread.named != 0 || options().sys_thread_name)
        .map(|thread| thread.name)
}
