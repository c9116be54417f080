//! Log mode: every event, in order, into chunks that a controller drains.
//!
//! A thread owns one chunk at a time and fills it without a lock. An event costs a number from the shard of
//! its address (what orders it among threads), a load of the clock that the drainer ticks, a few bytes,
//! and the store that publishes them: nothing is ever flushed, so nothing is lost by a kill. What happens
//! when the drainer does not keep up is in [`room`].
#![allow(unsafe_code)]

mod orders;
mod room;
mod strays;

pub(crate) use strays::with_shared;

use heapwise_format::chunk::{AT_PUBLISHED, EVENT_BYTES, HEADER_BYTES, published};
use heapwise_format::event::{EventState, MAX_EVENT_BYTES};
use heapwise_format::segment::{ControlWord, Counter};

use crate::atomics::{AtomicU64, Ordering, fence};
use crate::{atomics, clock, process, segment};
use orders::draw;

/// Events between two looks at the clock, for when no drainer ticks.
const CLOCK_EVENTS: u32 = 64;
/// A tick that is this old is helped along by the kernel's clock: the drainer was stopped, or not scheduled.
/// Above the 4 ms that the coarse clock may lag behind.
const STALE_TICK_NS: u64 = 8_000_000;
/// Not a number of milliseconds that a process lives.
const NO_TICK: u64 = u64::MAX;
/// An event may be preceded by a gap and a tick.
const ROOM: usize = 3 * MAX_EVENT_BYTES;

/// What a thread keeps between its events. Zeroed memory is valid: no chunk yet.
pub(crate) struct ThreadLog {
    /// The chunk in the segment, null without one.
    chunk: *mut u8,
    /// Bytes of events in it.
    len: usize,
    /// Which chunk of this stream it is.
    sequence: u32,
    /// Number of this stream in the process; 0 before the first chunk.
    stream: u32,
    /// The thread's record, for the chunk's header.
    pub(crate) thread: u32,
    /// Events until the next look at the clock.
    until_clock: u32,
    /// The drainer's tick as of the last event.
    tick: u64,
    /// Milliseconds written last in this chunk.
    noted: Option<u64>,
    /// Events dropped since the last one written.
    dropped: u64,
    /// Events to drop before room is looked for again.
    resting: u32,
    state: EventState,
}

/// A block was allocated: called after the real call, before the program sees the block.
#[inline(always)]
pub(crate) fn alloc(log: &mut ThreadLog, address: u64, size: u64, node: u32, realloc: bool) {
    if log.begin() {
        alloc_ready(log, address, size, node, realloc);
    }
}

/// As [`alloc`], when the log [is ready](ThreadLog::is_ready).
#[inline(always)]
pub(crate) fn alloc_ready(log: &mut ThreadLog, address: u64, size: u64, node: u32, realloc: bool) {
    let order = draw(address);
    let (state, out) = log.next_event();
    let len = state.encode_alloc(out, (address, size), node, order, realloc);
    log.publish_event(len);
}

/// A block is about to be freed: called before the real call.
#[inline(always)]
pub(crate) fn free(log: &mut ThreadLog, address: u64) {
    if log.begin() {
        free_ready(log, address);
    }
}

/// As [`free`], when the log [is ready](ThreadLog::is_ready).
#[inline(always)]
pub(crate) fn free_ready(log: &mut ThreadLog, address: u64) {
    let order = draw(address);
    let (state, out) = log.next_event();
    let len = state.encode_free(out, address, order);
    log.publish_event(len);
}

/// A block may be about to be freed: its number, drawn before the real call; `None` when the event is dropped.
pub(crate) fn reserve(log: &mut ThreadLog, address: u64) -> Option<u32> {
    log.begin().then(|| draw(address))
}

/// What became of a block with a reserved number: freed, or kept because the call failed. An event that finds
/// no room any more leaves a hole in the order, which the drainer gives up after a while.
pub(crate) fn settle(log: &mut ThreadLog, address: u64, order: u32, is_freed: bool) {
    if log.begin() {
        let (state, out) = log.next_event();
        let len = match is_freed {
            true => state.encode_free(out, address, order),
            false => state.encode_kept(out, address, order),
        };
        log.publish_event(len);
    }
}

/// The thread ends: no more events from `log`.
pub(crate) fn end(log: &mut ThreadLog) {
    if log.dropped > 0 && !log.chunk.is_null() {
        log.put_gap();
    }
    room::leave(log, room::Leaving::Last);
}

/// Starts an empty log in a fresh segment (again after `fork`).
pub(crate) fn init() {
    orders::init();
    room::init();
    strays::init();
}

/// The drainer's tick.
#[inline(always)]
pub(crate) fn tick() -> u64 {
    segment::control(ControlWord::TickMillis).load(Ordering::Relaxed)
}

/// Milliseconds of the recording at `now_ns`, by the drainer's tick.
pub(crate) fn time_at(now_ns: u64, tick: u64) -> u64 {
    // The sign of life was written before the tick.
    fence(Ordering::Acquire);
    let heartbeat = segment::control(ControlWord::DrainHeartbeat).load(Ordering::Relaxed);
    let silence = now_ns.saturating_sub(heartbeat);
    match heartbeat {
        0 => u64::from(process::age_ms()),
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
            thread: u32::MAX,
            until_clock: 0,
            tick: 0,
            noted: None,
            dropped: 0,
            resting: 0,
            state: EventState::new(),
        }
    }

    /// Makes room for an event and notes the time; false when the event is dropped. No number is drawn
    /// before, so a dropped event leaves no hole in the order.
    #[inline(always)]
    fn begin(&mut self) -> bool {
        if !self.has_room() && !self.next_chunk() {
            return false;
        }
        let tick = tick();
        self.until_clock = self.until_clock.wrapping_sub(1);
        if tick != self.tick || self.until_clock >= CLOCK_EVENTS {
            self.note_time(tick);
        }
        true
    }

    /// Whether an event can be written with no more ado. Looks at the clock are left to those that cannot: one event in
    /// 64 is looked at closely anyway.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        self.has_room() && tick() == self.tick
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        !self.chunk.is_null() && self.len + ROOM <= EVENT_BYTES
    }

    /// What encodes the event behind the last, and where to. No closure is passed to encode it: the compiler would
    /// hand over everything by reference.
    #[inline(always)]
    fn next_event(&mut self) -> (&mut EventState, &mut [u8; MAX_EVENT_BYTES]) {
        let out = self.chunk.wrapping_add(HEADER_BYTES + self.len);
        atomics::about_to_write(out, MAX_EVENT_BYTES);
        // SAFETY: `begin` left room for `ROOM` bytes in the chunk, which `room` gave to this thread alone;
        // the drainer reads through the file only.
        let out = unsafe { &mut *out.cast::<[u8; MAX_EVENT_BYTES]>() };
        (&mut self.state, out)
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
    fn next_chunk(&mut self) -> bool {
        if self.resting > 0 || !room::take(self) {
            self.resting = self.resting.saturating_sub(1);
            self.dropped += 1;
            segment::count(Counter::LostEvents);
            return false;
        }
        if self.dropped > 0 {
            self.put_gap();
        }
        // Every chunk decodes on its own: its first event is preceded by the time.
        self.noted = None;
        self.note_time(tick());
        true
    }

    /// The thread's next event looks at the clock, whatever the tick says.
    pub(crate) fn expire_tick(&mut self) {
        self.tick = NO_TICK;
    }

    fn put_gap(&mut self) {
        let dropped = core::mem::take(&mut self.dropped);
        let len = EventState::encode_gap(self.next_event().1, dropped);
        self.publish_event(len);
    }

    #[cold]
    #[inline(never)]
    fn note_time(&mut self, tick: u64) {
        self.tick = tick;
        self.until_clock = CLOCK_EVENTS - 1;
        let milliseconds = time_at(clock::coarse_ns(), tick);
        if self.noted != Some(milliseconds) {
            self.noted = Some(milliseconds);
            let len = EventState::encode_tick(self.next_event().1, milliseconds);
            self.publish_event(len);
        }
    }
}
