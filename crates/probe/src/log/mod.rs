//! Log mode: every event, in order, into chunks that a controller drains.
//!
//! A thread owns one chunk at a time and fills it without a lock. An event costs a load of the
//! clock that the recorder ticks, a word or more, and the store that publishes it: nothing is
//! buffered, so nothing is lost by a kill. [`chunk_alloc`] handles a recorder that does not keep
//! up.
#![allow(unsafe_code)]

mod chunk_alloc;
mod shared_log;

pub(crate) use shared_log::with_shared;

use chunk_alloc::Chunks;
use shared_log::SharedLog;

use heapwise_format::chunk::{AT_PUBLISHED, EVENT_BYTES, HEADER_BYTES, published};
use heapwise_format::event::{self, Block, Freeing, MAX_EVENT_BYTES, Room};
use heapwise_format::segment::ControlWord;

use crate::arch::prefetch_write;
use crate::atomics::{AtomicU64, Ordering, fence};
use crate::live::Live;
use crate::live::alloc_times::{self, AllocTime};
use crate::session::Session;
use crate::{atomics, clock, segment};

/// Events between two reads of the clock, used when no drainer ticks.
const CLOCK_EVENTS: u32 = 64;
/// A tick that is this old is helped along by the kernel's clock: the drainer was stopped, or not
/// scheduled. Above the 4 ms that the coarse clock may lag behind.
const STALE_TICK_NS: u64 = 8_000_000;
/// Not a number of milliseconds that a process lives.
const NO_TICK: u64 = u64::MAX;
/// Distance of the cache line that is prefetched while an event is written: the drainer has read it
/// on another core.
const PREFETCH_BYTES: usize = 256;
/// An event may be preceded by a gap, a tick and a mark.
const ROOM: usize = 4 * MAX_EVENT_BYTES;

/// The log of a session. Zeroed memory is valid: empty.
pub(crate) struct Log {
    chunks: Chunks,
    shared: SharedLog,
}

/// State of a thread between its events. Zeroed memory is valid: no chunk yet.
pub(crate) struct ThreadLog {
    /// The chunk in the segment, null without one.
    chunk: *mut u8,
    /// Bytes of events in it.
    len: usize,
    /// Number of the chunk in this stream.
    sequence: u32,
    /// Number of this stream in the process; 0 before the first chunk.
    stream: u32,
    /// The thread's record plus 1, for the chunk's header; 0: none.
    thread: u32,
    /// Events until the next read of the clock.
    until_clock: u32,
    /// The drainer's tick as of the last event.
    tick: u64,
    /// Milliseconds written last in this chunk; [`NO_TICK`]: none.
    noted: u64,
    /// Events dropped since the last one written.
    dropped: u64,
    /// Events to drop before room is looked for again.
    resting: u32,
    /// The block that the last event allocated; 0 when it did not.
    newest: u64,
    /// Marks of the process that are in the log.
    marks: u64,
    /// The earliest millisecond of events behind them.
    mark_ms: u64,
}

/// A block was allocated: called after the real call, before the program gets the block. Returns
/// the time, or [`AllocTime::UNKNOWN`] when the event was dropped.
#[inline(always)]
pub(crate) fn alloc(session: &Session, log: &mut ThreadLog, address: u64, block: Block) -> AllocTime {
    if !log.begin(session) {
        return AllocTime::UNKNOWN;
    }
    alloc_ready(log, address, block)
}

/// As [`alloc`], when the log [is ready](ThreadLog::is_ready).
#[inline(always)]
pub(crate) fn alloc_ready(log: &mut ThreadLog, address: u64, block: Block) -> AllocTime {
    log.newest = address;
    let len = event::encode_alloc(log.next_event(), block);
    log.publish_event(len);
    AllocTime::new(log.noted, block.by_realloc)
}

/// A block is about to be freed: called before the real call.
#[inline(always)]
pub(crate) fn free(session: &Session, log: &mut ThreadLog, address: u64, block: Live, alloc_time: AllocTime) {
    if log.begin(session) {
        free_ready(log, address, block, alloc_time);
    }
}

/// As [`free`], when the log [is ready](ThreadLog::is_ready).
#[inline(always)]
pub(crate) fn free_ready(log: &mut ThreadLog, address: u64, block: Live, alloc_time: AllocTime) {
    let how = if log.newest == address { Freeing::AtOnce } else { Freeing::Plain };
    log.newest = 0;
    log.put_free(block, alloc_time, how);
}

/// The free of a block was not seen: the allocator has returned its address again.
pub(crate) fn missed_free(session: &Session, log: &mut ThreadLog, block: Live, alloc_time: AllocTime) {
    if log.begin(session) {
        log.put_free(block, alloc_time, Freeing::Missed);
    }
}

/// A block was freed whose allocation was not recorded.
pub(crate) fn unknown_free(session: &Session, log: &mut ThreadLog) {
    if log.begin(session) {
        log.newest = 0;
        let len = event::encode_unknown(log.next_event());
        log.publish_event(len);
    }
}

/// The thread ends: no more events from `log`.
pub(crate) fn end(log: &mut ThreadLog) {
    if log.dropped > 0 && !log.chunk.is_null() {
        log.put_gap();
    }
    chunk_alloc::leave(log, chunk_alloc::Leaving::Last);
}

/// Maps memory for some more of the heap: the program is about to give up system calls.
pub(crate) fn reserve(session: &Session, room: u64) {
    session.live.alloc_times.reserve(room as usize);
}

/// Writing begins, or another recording: what is known of blocks belongs to the one before.
pub(crate) fn begin_recording(session: &Session) {
    alloc_times::clear(session);
}

/// The drainer's tick.
#[inline(always)]
pub(crate) fn tick(session: &Session) -> u64 {
    session.segment.control(ControlWord::TickMillis).load(Ordering::Relaxed)
}

/// Milliseconds of the recording at `now_ns`, by the drainer's tick.
pub(crate) fn time_at(session: &Session, now_ns: u64, tick: u64) -> u64 {
    // The sign of life was written before the tick.
    fence(Ordering::Acquire);
    let heartbeat = session.segment.control(ControlWord::DrainHeartbeat).load(Ordering::Relaxed);
    let silence = now_ns.saturating_sub(heartbeat);
    match heartbeat {
        0 => u64::from(session.segment.age_ms()),
        _ if silence > STALE_TICK_NS => tick + silence / 1_000_000,
        _ => tick,
    }
}

impl ThreadLog {
    /// No chunk yet.
    pub(crate) const fn new() -> Self {
        Self {
            chunk: core::ptr::null_mut(),
            len: 0,
            sequence: 0,
            stream: 0,
            thread: 0,
            until_clock: 0,
            tick: 0,
            noted: 0,
            dropped: 0,
            resting: 0,
            newest: 0,
            marks: 0,
            mark_ms: 0,
        }
    }

    /// Sets the thread of the events.
    pub(crate) fn set_thread(&mut self, record: Option<u32>) {
        self.thread = record.map_or(0, |record| record + 1);
    }

    /// Makes room for an event and notes the time; false when the event is dropped. No number is
    /// drawn before, so a dropped event leaves no hole in the order.
    #[inline(always)]
    pub(crate) fn begin(&mut self, session: &Session) -> bool {
        if !self.has_room() && !self.next_chunk(session) {
            return false;
        }
        let tick = tick(session);
        self.until_clock = self.until_clock.wrapping_sub(1);
        if tick != self.tick || self.until_clock >= CLOCK_EVENTS {
            self.note_time(session, tick);
        }
        true
    }

    /// Whether an event can be written on the fast path. Only events of the slow path read the
    /// clock: one event in 128 takes the slow path anyway.
    #[inline(always)]
    pub(crate) fn is_ready(&self, session: &Session) -> bool {
        self.has_room() && tick(session) == self.tick
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        !self.chunk.is_null() && self.len + ROOM <= EVENT_BYTES
    }

    /// Room for the event behind the last.
    #[inline(always)]
    fn next_event(&mut self) -> &mut Room {
        let out = self.chunk.wrapping_add(HEADER_BYTES + self.len);
        prefetch_write(out.wrapping_add(PREFETCH_BYTES));
        atomics::about_to_write(out, MAX_EVENT_BYTES);
        // SAFETY: `begin` left room for `ROOM` bytes in the chunk, which `room` gave to this thread
        // alone; the drainer reads through the file only.
        unsafe { &mut *out.cast::<Room>() }
    }

    #[inline(always)]
    fn put_free(&mut self, block: Live, alloc_time: AllocTime, how: Freeing) {
        let age_ms = alloc_time.age_ms(self.noted);
        let block = Block { tally: block.tally, size: block.size, by_realloc: alloc_time.by_realloc() };
        let len = event::encode_free(self.next_event(), block, age_ms, how);
        self.publish_event(len);
    }

    /// The thread's next event happens after so many marks. Called when the thread notices a new
    /// mark, which it does before that event.
    pub(crate) fn note_marks(&mut self, session: &Session, marks: u64, mark_ms: u64) {
        self.mark_ms = mark_ms;
        if self.marks != marks && self.begin(session) {
            self.marks = marks;
            self.note_time(session, tick(session));
            let len = event::encode_mark(self.next_event(), marks);
            self.publish_event(len);
        }
    }

    /// The event behind the last is `len` bytes long.
    #[inline(always)]
    fn publish_event(&mut self, len: usize) {
        self.len += len;
        self.publish();
    }

    #[inline(always)]
    fn publish(&self) {
        // SAFETY: the chunk is this thread's, and the word is inside its header.
        let word: &AtomicU64 = unsafe { segment::word64(self.chunk, AT_PUBLISHED) };
        word.store(published(self.sequence, self.len), Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn next_chunk(&mut self, session: &Session) -> bool {
        if self.resting > 0 || !chunk_alloc::take(session, self) {
            self.resting = self.resting.saturating_sub(1);
            self.drop_event();
            session.segment.count_lost_event();
            return false;
        }
        if self.dropped > 0 {
            self.put_gap();
        }
        // Every chunk decodes on its own: its first event is preceded by the time.
        self.noted = NO_TICK;
        self.note_time(session, tick(session));
        true
    }

    /// An event is missing here; the caller counts it.
    #[cold]
    pub(crate) fn drop_event(&mut self) {
        self.newest = 0;
        self.dropped += 1;
    }

    /// Makes the thread's next event read the clock, for any value of the tick.
    pub(crate) fn expire_tick(&mut self) {
        self.tick = NO_TICK;
    }

    fn put_gap(&mut self) {
        let dropped = core::mem::take(&mut self.dropped);
        let len = event::encode_gap(self.next_event(), dropped);
        self.publish_event(len);
    }

    #[cold]
    #[inline(never)]
    fn note_time(&mut self, session: &Session, tick: u64) {
        self.tick = tick;
        self.until_clock = CLOCK_EVENTS - 1;
        let milliseconds = time_at(session, clock::coarse_ns(), tick).max(self.mark_ms);
        if self.noted != milliseconds {
            self.noted = milliseconds;
            let len = event::encode_tick(self.next_event(), milliseconds);
            self.publish_event(len);
        }
    }
}
