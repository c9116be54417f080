//! Log mode: every event, in order, into chunks that a controller drains.
//!
//! A thread owns one chunk at a time and fills it without a lock. An event costs a look at what is kept beside
//! its block ([`births`]), a load of the clock that the drainer ticks, a word, and the store that publishes it: nothing is
//! ever flushed, so nothing is lost by a kill. What happens when the drainer does not keep up is in [`room`].
#![allow(unsafe_code)]

mod births;
mod room;
mod strays;

pub(crate) use births::{Birth, Place, known};
pub(crate) use strays::with_shared;

use heapwise_format::chunk::{AT_PUBLISHED, EVENT_BYTES, HEADER_BYTES, published};
use heapwise_format::event::{self, Freeing, MAX_EVENT_BYTES, NO_THREAD, Origin, Room};
use heapwise_format::segment::{ControlWord, Counter};

use crate::atomics::{AtomicU64, Ordering, fence};
use crate::{atomics, clock, process, segment};

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
    thread: u32,
    /// Events until the next look at the clock.
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
    /// The block that the last event freed, likewise.
    last_freed: u64,
}

/// A block of a bucket was allocated: called after the real call, before the program sees the block. Without a bucket it
/// is missing.
#[inline(always)]
pub(crate) fn alloc(log: &mut ThreadLog, address: u64, bucket: Option<u32>) {
    let Some(bucket) = bucket else { return log.drop_event() };
    let Some(place) = births::place(address) else {
        segment::count(Counter::LostLive);
        return log.drop_event();
    };
    if !log.begin() {
        // What is still there is told when there is room.
        return;
    }
    if let Some(old) = place.get() {
        log.put_free(old, Freeing::Missed);
        place.clear();
        if !log.begin() {
            return;
        }
    }
    alloc_ready(log, place, address, bucket);
}

/// As [`alloc`], when the log [is ready](ThreadLog::is_ready) and nothing is at the place.
#[inline(always)]
pub(crate) fn alloc_ready(log: &mut ThreadLog, place: Place, address: u64, bucket: u32) {
    place.set(Birth::new(Origin::new(bucket, log.thread), log.noted));
    log.newest = address;
    put_alloc(log, bucket);
}

/// Writes down that a block of a bucket came, when there is room.
#[inline(always)]
pub(crate) fn put_alloc(log: &mut ThreadLog, bucket: u32) {
    let len = event::encode_alloc(log.next_event(), bucket);
    log.publish_event(len);
}

/// A block is about to be freed: called before the real call. One whose free finds no room is told when its address is
/// handed out again.
#[inline(always)]
pub(crate) fn free(log: &mut ThreadLog, address: u64) {
    if log.begin() {
        settle(log, address, take(address));
    }
}

/// As [`free`] of a block that came at this place, when the log [is ready](ThreadLog::is_ready).
#[inline(always)]
pub(crate) fn free_ready(log: &mut ThreadLog, place: Place, birth: Birth, address: u64) {
    place.clear();
    log.put_known_free(birth, address);
}

/// A block may be about to be freed: what is known of it is taken from its place, which may be another block's in a moment.
pub(crate) fn take(address: u64) -> Option<Birth> {
    births::take(address)
}

/// The block was not freed.
pub(crate) fn put_back(address: u64, birth: Birth) {
    if let Some(place) = births::place(address) {
        place.set(birth);
    }
}

/// A block that was taken is freed.
pub(crate) fn freed(log: &mut ThreadLog, address: u64, birth: Option<Birth>) {
    if log.begin() {
        settle(log, address, birth);
    }
}

fn settle(log: &mut ThreadLog, address: u64, birth: Option<Birth>) {
    match birth {
        Some(birth) => log.put_known_free(birth, address),
        // The same address twice in a row is one free: a hooked operator ended in a jump to `free`.
        None if log.last_freed == address => {}
        None => {
            log.newest = 0;
            log.last_freed = address;
            let len = event::encode_unknown(log.next_event());
            log.publish_event(len);
        }
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
    births::init();
    room::init();
    strays::init();
}

/// Takes memory for some more of the heap, while there is any: the program is about to restrain itself.
pub(crate) fn settle_for(room: u64) {
    births::reserve(room as usize);
}

/// Writing begins, or another recording: what is known of blocks belongs to the one before.
pub(crate) fn begin_recording() {
    births::forget();
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
            thread: NO_THREAD,
            until_clock: 0,
            tick: 0,
            noted: NO_TICK,
            dropped: 0,
            resting: 0,
            newest: 0,
            last_freed: 0,
        }
    }

    /// Whose events these are.
    pub(crate) fn set_thread(&mut self, record: u32) {
        self.thread = record.min(NO_THREAD);
    }

    /// Makes room for an event and notes the time; false when the event is dropped. No number is drawn
    /// before, so a dropped event leaves no hole in the order.
    #[inline(always)]
    pub(crate) fn begin(&mut self) -> bool {
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
    /// 128 is looked at closely anyway.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        self.has_room() && tick() == self.tick
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        !self.chunk.is_null() && self.len + ROOM <= EVENT_BYTES
    }

    /// Room for the event behind the last.
    #[inline(always)]
    fn next_event(&mut self) -> &mut Room {
        let out = self.chunk.wrapping_add(HEADER_BYTES + self.len);
        atomics::about_to_write(out, MAX_EVENT_BYTES);
        // SAFETY: `begin` left room for `ROOM` bytes in the chunk, which `room` gave to this thread alone;
        // the drainer reads through the file only.
        unsafe { &mut *out.cast::<Room>() }
    }

    #[inline(always)]
    fn put_known_free(&mut self, birth: Birth, address: u64) {
        let how = if self.newest == address { Freeing::AtOnce } else { Freeing::Plain };
        self.newest = 0;
        self.last_freed = address;
        self.put_free(birth, how);
    }

    #[inline(always)]
    fn put_free(&mut self, birth: Birth, how: Freeing) {
        let age_ms = birth.age_ms(self.noted);
        let len = event::encode_free(self.next_event(), birth.origin(), age_ms, how);
        self.publish_event(len);
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
            self.drop_event();
            segment::count(Counter::LostEvents);
            return false;
        }
        if self.dropped > 0 {
            self.put_gap();
        }
        // Every chunk decodes on its own: its first event is preceded by the time.
        self.noted = NO_TICK;
        self.note_time(tick());
        true
    }

    /// An event is missing here, as is counted elsewhere.
    #[cold]
    fn drop_event(&mut self) {
        self.newest = 0;
        self.dropped += 1;
    }

    /// The thread's next event looks at the clock, whatever the tick says.
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
    fn note_time(&mut self, tick: u64) {
        self.tick = tick;
        self.until_clock = CLOCK_EVENTS - 1;
        let milliseconds = time_at(clock::coarse_ns(), tick);
        if self.noted != milliseconds {
            self.noted = milliseconds;
            let len = event::encode_tick(self.next_event(), milliseconds);
            self.publish_event(len);
        }
    }
}
