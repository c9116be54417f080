//! One order from many threads' chunks.
//!
//! Each thread's events are in order by themselves. Across threads there are time and marks:
//! threads advance together millisecond by millisecond and mark by mark. The time of the merged
//! stream never runs backwards. All events that their threads wrote before they noticed a mark come
//! before those behind it. Between two marks the order within a millisecond is not known, but the
//! taker of events may refuse one for now (a free of a block that is not allocated yet): its thread
//! then waits while the others continue, until no event remains that it could wait for. That case
//! occurs: threads may wait for each other, clocks differ, and threads end with their last events
//! unwritten.

mod buffers;
mod stream;

use heapwise_format::event::Event;
use rustc_hash::FxHashMap;

use buffers::Buffers;
use stream::{Position, Stream};

/// By how much the clocks of threads may differ. An event must be taken when all others have been
/// delivered up to this much later, and a mark waits this long for the events of threads that have
/// not noticed it.
const PATIENCE_MS: u64 = 2;

/// What merged events go to.
pub(super) trait Taker {
    /// Takes an event of a thread and millisecond; unless it `must`, it may refuse.
    fn take(&mut self, thread: u32, ms: u64, event: &Event, must: bool) -> bool;

    /// Takes any number of events from the start of `bytes`, all of one thread and millisecond, at
    /// once; returns how many bytes they have.
    fn take_run(&mut self, _thread: u32, _ms: u64, _bytes: &[u8]) -> usize {
        0
    }
}

#[cfg(test)]
impl<F: FnMut(u32, u64, &Event, bool) -> bool> Taker for F {
    fn take(&mut self, thread: u32, ms: u64, event: &Event, must: bool) -> bool {
        self(thread, ms, event, must)
    }
}

/// Merges the chunks of all threads of one process. A stream is one thread's log.
#[derive(Debug)]
pub struct Merger {
    streams: Vec<Stream>,
    places: FxHashMap<u32, usize>,
    buffers: Buffers,
    tick_ms: u64,
    /// Marks before the events that are delivered now.
    marks: u64,
    first_chunk: Option<u32>,
    first_marks: u64,
}

/// Where a piece of a chunk belongs.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// Number of the thread's log.
    pub stream: u32,
    /// The thread's record.
    pub thread: u32,
    /// Which chunk of the stream.
    pub sequence: u32,
    /// No more will come for this chunk.
    pub is_complete: bool,
    /// No more chunks will come for this stream.
    pub is_last: bool,
}

/// Limit up to which events are complete: unread events are later, or behind a later mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Until {
    /// Milliseconds: one past the last.
    pub ms: u64,
    /// Marks that the program had set before reading began.
    pub marks: u64,
}

impl Until {
    /// Everything there is.
    pub const END: Self = Self { ms: u64::MAX, marks: u64::MAX };

    fn covers(&self, stream: &Stream) -> bool {
        stream.tick_ms < self.ms && stream.marks <= self.marks
    }
}

impl Merger {
    /// A merger that sees the log from its first event.
    #[must_use]
    pub fn from_start() -> Self {
        Self::new(Some(1), 0)
    }

    /// A merger that joins a log in the middle, when the program has set so many marks: it takes
    /// the first chunk it sees of each thread as the next.
    #[must_use]
    pub fn from_now(marks: u64) -> Self {
        Self::new(None, marks)
    }

    fn new(first_chunk: Option<u32>, marks: u64) -> Self {
        Self {
            streams: Vec::new(),
            places: FxHashMap::default(),
            buffers: Buffers::default(),
            tick_ms: 0,
            marks,
            first_chunk,
            first_marks: marks,
        }
    }

    /// Takes in the `len` bytes that follow what was fed of this chunk before. `fill` puts them
    /// where they will be read; nothing is taken in when it returns `false`. Whether the piece was
    /// taken in.
    pub fn feed(&mut self, piece: Piece, len: usize, fill: impl FnOnce(&mut [u8]) -> bool) -> bool {
        let place = self.place(&piece);
        let chunk = self.streams[place].chunk(piece.sequence);
        let is_filled = fill(chunk.room(len, &mut self.buffers));
        if is_filled {
            chunk.add(len, piece.is_complete, piece.is_last);
        }
        is_filled
    }

    /// Passes over `len` bytes of a chunk that were written before the recording began.
    pub fn skip(&mut self, piece: Piece, len: usize) {
        // No event needs those before it, so a chunk that is complete need not be known of.
        if !piece.is_complete && self.feed(piece, len, |_| true) {
            let place = self.place(&piece);
            self.streams[place].chunk(piece.sequence).skip_all();
        }
    }

    fn place(&mut self, piece: &Piece) -> usize {
        *self.places.entry(piece.stream).or_insert_with(|| {
            let (chunk, marks) = (self.first_chunk, self.first_marks);
            self.streams.push(Stream::new(piece.stream, piece.thread, chunk, marks));
            self.streams.len() - 1
        })
    }

    /// Removes streams that have ended: a program may have any number of threads one after another.
    fn forget_ended(&mut self) {
        if self.streams.iter().any(|stream| stream.is_ended) {
            self.streams.retain(|stream| !stream.is_ended);
            let places = self.streams.iter().enumerate().map(|(place, stream)| (stream.number, place));
            self.places = places.collect();
        }
    }

    /// Bytes that hold chunks which are not yet read to their ends.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.streams.iter().map(Stream::held_bytes).sum()
    }

    /// As [`Merger::advance_into`], for a function.
    #[cfg(test)]
    fn advance(&mut self, until: Until, mut take: impl FnMut(u32, u64, &Event, bool) -> bool) -> u64 {
        self.advance_into(until, &mut take)
    }

    /// Delivers every event before `until`: the taker gets thread, millisecond, event, and whether
    /// it must take it; otherwise it may refuse. It also gets [`Event::Mark`]s, each before all
    /// events behind that mark. Returns the millisecond before which all are delivered: an earlier
    /// one when some are refused for now or are behind a later mark.
    pub(super) fn advance_into(&mut self, until: Until, taker: &mut impl Taker) -> u64 {
        for stream in &mut self.streams {
            stream.look_ahead(&mut self.buffers);
        }
        loop {
            let Some(tick) = self.first_pending(|stream| until.covers(stream)) else {
                self.forget_ended();
                return self.first_pending(|stream| stream.tick_ms < until.ms).unwrap_or(until.ms);
            };
            self.tick_ms = self.tick_ms.max(tick);
            if self.run(taker) {
                continue;
            }
            let goes_on = match self.first_waiting(until) {
                Some(refused_ms) => self.wait(refused_ms, until),
                None => self.pass_mark(until, taker),
            };
            if !goes_on {
                return tick;
            }
        }
    }

    /// Earliest millisecond at which an event waits in a stream that `is_meant`.
    fn first_pending(&self, is_meant: impl Fn(&Stream) -> bool) -> Option<u64> {
        let pending = self.streams.iter().filter(|stream| stream.has_event && is_meant(stream));
        pending.map(|stream| stream.tick_ms).min()
    }

    /// Earliest millisecond of an event that was refused.
    fn first_waiting(&self, until: Until) -> Option<u64> {
        let (now_ms, marks) = (self.tick_ms, self.marks);
        self.first_pending(|stream| until.covers(stream) && stream.tick_ms <= now_ms && stream.marks <= marks)
    }

    /// All events up to now are refused or behind a mark, one of `refused_ms` is refused. What it
    /// waits for may be a little later; whether there are such events, or it must be taken now.
    fn wait(&mut self, refused_ms: u64, until: Until) -> bool {
        let (now_ms, marks) = (self.tick_ms, self.marks);
        let is_later = |stream: &Stream| stream.tick_ms > now_ms && stream.marks <= marks;
        let later = self.first_pending(|stream| until.covers(stream) && is_later(stream));
        if refused_ms.saturating_add(PATIENCE_MS) <= later.unwrap_or(until.ms) {
            let mut waiting = self.streams.iter_mut().filter(|stream| stream.has_event);
            let is_refused = |stream: &&mut Stream| stream.tick_ms == refused_ms && stream.marks <= marks;
            if let Some(first) = waiting.find(is_refused) {
                first.is_due = true;
            }
            return true;
        }
        if let Some(later) = later {
            self.tick_ms = later;
        }
        later.is_some()
    }

    /// All events up to now are behind a mark: passes it, once no events before it are left.
    /// Threads whose clocks are ahead may have some.
    fn pass_mark(&mut self, until: Until, taker: &mut impl Taker) -> bool {
        let now_ms = self.tick_ms;
        let behind = self.streams.iter().filter(|stream| stream.has_event && stream.tick_ms <= now_ms);
        let behind = behind.filter(|stream| until.covers(stream)).min_by_key(|stream| stream.marks);
        let Some(&Stream { marks, thread, tick_ms, .. }) = behind else { return false };
        let is_before =
            |stream: &Stream| stream.marks < marks && stream.tick_ms <= tick_ms.saturating_add(PATIENCE_MS);
        if let Some(later) = self.first_pending(|stream| until.covers(stream) && is_before(stream)) {
            self.tick_ms = self.tick_ms.max(later);
            return true;
        }
        self.marks = marks;
        taker.take(thread, self.tick_ms, &Event::Mark(marks), true);
        true
    }

    /// Runs every stream as far as time, marks and the taker allow; whether any event was taken.
    fn run(&mut self, taker: &mut impl Taker) -> bool {
        let (ms, marks) = (self.tick_ms, self.marks);
        let mut progressed = false;
        loop {
            let mut moved = false;
            for stream in &mut self.streams {
                moved |= stream.run(Position { ms, marks }, &mut self.buffers, taker);
            }
            if !moved {
                return progressed;
            }
            progressed = true;
        }
    }

    /// Passes over chunks that did not come, when no more will; whether there were any, and
    /// [`Merger::advance_into`] can go on.
    pub fn skip_missing(&mut self) -> bool {
        let jumps = self.streams.iter_mut().map(|stream| stream.jump(&mut self.buffers));
        jumps.fold(false, |any, jumped| any | jumped)
    }
}

#[cfg(test)]
mod tests;
