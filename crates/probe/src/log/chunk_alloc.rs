//! Chunks for threads: taking one, leaving one, and what to do when there is none.
//!
//! With a live drainer, a thread waits for room in small steps, up to a timeout, which restarts
//! when another thread finds room, within a limit; the more threads wait, the longer the steps, so
//! that they leave the processors to the drainer. Otherwise, and after the timeout, events are
//! dropped and counted, and a gap with their number precedes the next event that finds room. After
//! a timeout a thread does not wait again before it has found room, so the program is never
//! stalled.
#![allow(unsafe_code)]

use heapwise_format::chunk::{AT_LAST, AT_STATE, AT_STREAM, AT_THREAD, ChunkState};
use heapwise_format::segment::{Control, ControlWord, Counter, SectionKind};

use super::ThreadLog;
use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::session::Session;
use crate::{clock, segment, sys};

/// The chunks of a session. Zeroed memory is valid: none in use.
pub(super) struct Chunks {
    /// Where the search for a drained chunk begins when none of the first is: behind the one found
    /// last.
    hint: AtomicU32,
    /// Streams so far.
    streams: AtomicU32,
    /// Chunks in use. Private: the segment may be overwritten by others.
    used: AtomicU64,
    /// A wait ended without room; cleared by the next chunk taken.
    is_starved: AtomicBool,
    /// Threads that wait.
    waiting: AtomicU32,
    /// Chunks taken so far.
    taken: AtomicU32,
    /// The drainer's heartbeat at the last search that found nothing.
    searched: AtomicU64,
}

/// The first chunks are looked at before the log grows: one of them is free when the drainer keeps
/// up, and what they hold is still in the processor's caches.
const NEAR: u64 = 128;
/// A wait's step, times the number of waiting threads. heapprofd's value: short against a drain,
/// long against a switch of threads.
const STEP_NS: u64 = 100_000;
/// The longest step.
const MOST_STEP_NS: u64 = 5_000_000;
/// A thread waits at most so many times as long as configured, and only while others find room.
const MOST_PATIENCE: u64 = 10;
/// A drainer without a sign of life for so long is not waited for.
const DEAD_NS: u64 = 1_000_000_000;
/// Events dropped before a full log is searched again.
const REST_EVENTS: u32 = 256;

/// How a thread leaves its chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It is full.
    Full,
    /// The thread ends.
    Last,
}

/// Hands the chunk over to the drainer.
pub(super) fn leave(log: &mut ThreadLog, how: Leaving) {
    if log.chunk.is_null() {
        return;
    }
    let last = u32::from(how == Leaving::Last);
    // SAFETY: the chunk is this thread's until the store of its state, which is the last.
    unsafe {
        segment::word32(log.chunk, AT_LAST).store(last, Ordering::Relaxed);
        segment::word32(log.chunk, AT_STATE).store(ChunkState::Full as u32, Ordering::Release);
    }
    log.chunk = core::ptr::null_mut();
}

/// Leaves the full chunk and takes another; false when there is none and none came in time.
pub(super) fn take(session: &Session, log: &mut ThreadLog) -> bool {
    leave(log, Leaving::Full);
    let chunks = &session.log.chunks;
    let Some(chunk) = find(session).or_else(|| wait(session)) else {
        log.resting = REST_EVENTS;
        return false;
    };
    chunks.is_starved.store(false, Ordering::Relaxed);
    chunks.taken.fetch_add(1, Ordering::Relaxed);
    if log.stream == 0 {
        log.stream = chunks.streams.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    }
    log.chunk = chunk;
    log.len = 0;
    log.resting = 0;
    log.sequence = log.sequence.wrapping_add(1).max(1);
    // SAFETY: `find` gave the chunk to this thread; `publish` follows with release.
    unsafe {
        segment::word32(chunk, AT_THREAD).store(log.thread.wrapping_sub(1), Ordering::Relaxed);
        segment::word32(chunk, AT_STREAM).store(log.stream, Ordering::Relaxed);
        segment::word32(chunk, AT_LAST).store(0, Ordering::Relaxed);
    }
    log.publish();
    true
}

/// A chunk for the calling thread. Only the drainer makes room, and its heartbeat changes every
/// millisecond: after a search without result, all threads wait for the next one.
fn find(session: &Session) -> Option<*mut u8> {
    let searched = &session.log.chunks.searched;
    let heartbeat = heartbeat(session);
    if heartbeat != 0 && searched.load(Ordering::Relaxed) == heartbeat {
        return None;
    }
    let found = search(session);
    if found.is_none() {
        searched.store(heartbeat, Ordering::Relaxed);
    }
    found
}

/// When the drainer showed last that it is alive; 0 without one.
fn heartbeat(session: &Session) -> u64 {
    session.segment.control(ControlWord::DrainHeartbeat).load(Ordering::Relaxed)
}

/// One of the first chunks that is drained, else a new one, else any that is drained.
fn search(session: &Session) -> Option<*mut u8> {
    let Chunks { used, hint, .. } = &session.log.chunks;
    let (used, hint) = (used.load(Ordering::Relaxed), hint.load(Ordering::Relaxed));
    drained(session, 0, NEAR.min(used), used)
        .or_else(|| fresh(session))
        .or_else(|| drained(session, hint.into(), used, used))
}

/// A drained chunk among `most` of the `used` ones from `first` on.
fn drained(session: &Session, first: u64, most: u64, used: u64) -> Option<*mut u8> {
    (0..most).find_map(|step| {
        let index = (first + step) % used;
        let chunk = session.segment.existing(SectionKind::Chunks, index)?;
        claim(chunk, ChunkState::Drained).then(|| {
            session.log.chunks.hint.store(index as u32 + 1, Ordering::Relaxed);
            chunk
        })
    })
}

fn fresh(session: &Session) -> Option<*mut u8> {
    let segment = &session.segment;
    let capacity = segment.section(SectionKind::Chunks).capacity;
    let next = |used: u64| (used < capacity).then_some(used + 1);
    let used = &session.log.chunks.used;
    let index = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
    segment.counter(Counter::Chunks).fetch_max(index + 1, Ordering::Relaxed);
    let chunk = segment.record(SectionKind::Chunks, index)?;
    claim(chunk, ChunkState::Free).then_some(chunk)
}

fn claim(chunk: *mut u8, from: ChunkState) -> bool {
    // SAFETY: a chunk from the segment; the state is a word of its header.
    let state = unsafe { segment::word32(chunk, AT_STATE) };
    let (from, owned) = (from as u32, ChunkState::Owned as u32);
    state.load(Ordering::Relaxed) == from
        && state.compare_exchange(from, owned, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Waits for the drainer, if that is wanted and it is alive.
#[cold]
fn wait(session: &Session) -> Option<*mut u8> {
    let segment = &session.segment;
    let Chunks { is_starved, waiting, .. } = &session.log.chunks;
    let control = Control::from_words(|word| segment.control(word).load(Ordering::Relaxed));
    if control.on_full != heapwise_format::segment::OnFull::Block || is_starved.load(Ordering::Relaxed) {
        return None;
    }
    segment.count(Counter::WaitedEvents);
    waiting.fetch_add(1, Ordering::Relaxed);
    let found = wait_at_most(session, u64::from(control.block_millis) * 1_000_000);
    waiting.fetch_sub(1, Ordering::Relaxed);
    if found.is_none() {
        is_starved.store(true, Ordering::Relaxed);
    }
    found
}

/// Waits while the drainer is alive, and for so long after any thread found a chunk: with hundreds
/// of threads, one may find none for long although the drainer keeps making room.
fn wait_at_most(session: &Session, patience_ns: u64) -> Option<*mut u8> {
    let Chunks { waiting, taken, .. } = &session.log.chunks;
    let start = clock::monotonic_ns();
    let (mut seen, mut deadline) = (taken.load(Ordering::Relaxed), start + patience_ns);
    loop {
        let (now, heartbeat) = (clock::monotonic_ns(), heartbeat(session));
        let before = core::mem::replace(&mut seen, taken.load(Ordering::Relaxed));
        if seen != before {
            deadline = now.min(start + MOST_PATIENCE * patience_ns) + patience_ns;
        }
        if now >= deadline || heartbeat == 0 || now.saturating_sub(heartbeat) > DEAD_NS {
            return None;
        }
        let waiting = u64::from(waiting.load(Ordering::Relaxed));
        sys::sleep((waiting * STEP_NS).clamp(STEP_NS, MOST_STEP_NS));
        if let Some(chunk) = find(session) {
            return Some(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::TestSession;

    /// A search without result is repeated when the drainer has shown a sign of life.
    #[test]
    fn a_full_log_is_searched_once_a_heartbeat() {
        let session = &*TestSession::new();
        let beat = |heartbeat| {
            session.segment.control(ControlWord::DrainHeartbeat).store(heartbeat, Ordering::Relaxed);
        };
        beat(1);
        let mut chunks: Vec<*mut u8> = core::iter::from_fn(|| find(session)).collect();
        assert!(chunks.len() > 1);
        let drained = chunks.remove(1);
        // SAFETY: a chunk of the segment.
        unsafe { segment::word32(drained, AT_STATE) }.store(ChunkState::Drained as u32, Ordering::Relaxed);
        assert_eq!(find(session), None);
        beat(2);
        assert_eq!((find(session), find(session)), (Some(drained), None));
        // Without a drainer, another process may have made room.
        // SAFETY: as above.
        unsafe { segment::word32(drained, AT_STATE) }.store(ChunkState::Drained as u32, Ordering::Relaxed);
        beat(0);
        assert_eq!(find(session), Some(drained));
    }
}
