//! One order from many threads' chunks.
//!
//! Each thread's events are in order by themselves. Across threads there is only time: threads advance together
//! millisecond by millisecond, and the time of the merged stream never runs backwards. Within a millisecond the
//! order is not known, but whoever takes the events may refuse one for now (a free of a block that has not come
//! yet): its thread then waits while the others go on, until there is nothing left that it could wait for. That comes to
//! pass: threads may wait for each other, clocks differ, and threads die with their last events unwritten.

mod buffers;
mod stream;

use heapwise_format::event::Event;
use rustc_hash::FxHashMap;

use buffers::Buffers;
use stream::Stream;

/// An event is refused no longer when all others have been given out up to so much later: by how much threads may
/// differ in what they take for the time.
const PATIENCE_MS: u64 = 2;

/// Merges the chunks of all threads of one process. A stream is one thread's log.
#[derive(Debug)]
pub struct Merger {
    streams: Vec<Stream>,
    places: FxHashMap<u32, usize>,
    buffers: Buffers,
    tick_ms: u64,
    first_chunk: Option<u32>,
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

impl Merger {
    /// A merger that sees the log from its first event.
    #[must_use]
    pub fn from_start() -> Self {
        Self::new(Some(1))
    }

    /// A merger that joins a log in the middle: it takes the first chunk it sees of each thread as the next.
    #[must_use]
    pub fn from_now() -> Self {
        Self::new(None)
    }

    fn new(first_chunk: Option<u32>) -> Self {
        Self {
            streams: Vec::new(),
            places: FxHashMap::default(),
            buffers: Buffers::default(),
            tick_ms: 0,
            first_chunk,
        }
    }

    /// Takes in the `len` bytes that follow what was fed of this chunk before. `fill` puts them where they will be
    /// read; nothing is taken in when it returns `false`. Whether the piece was taken in.
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
            self.streams.push(Stream::new(piece.stream, piece.thread, self.first_chunk));
            self.streams.len() - 1
        })
    }

    /// Forgets streams that have ended: a program may have any number of threads one after another.
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

    /// Gives out every event before millisecond `until_ms`: `take` is told thread, millisecond, event, and whether it must
    /// take it; otherwise it may refuse. Returns the millisecond before which all are given out: an earlier one when some are
    /// refused for now.
    pub fn advance(&mut self, until_ms: u64, mut take: impl FnMut(u32, u64, &Event, bool) -> bool) -> u64 {
        for stream in &mut self.streams {
            stream.look_ahead(&mut self.buffers);
        }
        loop {
            let Some(tick) = self.first_pending(0, until_ms) else {
                self.forget_ended();
                return until_ms;
            };
            self.tick_ms = self.tick_ms.max(tick);
            if self.run(&mut take) {
                continue;
            }
            // Everything up to now is refused; what it waits for may be a little later.
            let later = self.first_pending(self.tick_ms + 1, until_ms);
            if tick.saturating_add(PATIENCE_MS) <= later.unwrap_or(until_ms) {
                let mut waiting = self.streams.iter_mut().filter(|stream| stream.has_event);
                if let Some(first) = waiting.find(|stream| stream.tick_ms == tick) {
                    first.is_due = true;
                }
            } else if let Some(later) = later {
                self.tick_ms = later;
            } else {
                return tick;
            }
        }
    }

    /// Earliest millisecond in `from_ms..until_ms` at which an event waits.
    fn first_pending(&self, from_ms: u64, until_ms: u64) -> Option<u64> {
        let ticks = self.streams.iter().filter(|stream| stream.has_event).map(|stream| stream.tick_ms);
        ticks.filter(|tick| (from_ms..until_ms).contains(tick)).min()
    }

    /// Runs every stream as far as time and the taker allow; whether any event was taken.
    fn run(&mut self, take: &mut impl FnMut(u32, u64, &Event, bool) -> bool) -> bool {
        let mut progressed = false;
        loop {
            let mut moved = false;
            for stream in &mut self.streams {
                moved |= stream.run(self.tick_ms, &mut self.buffers, take);
            }
            if !moved {
                return progressed;
            }
            progressed = true;
        }
    }

    /// Passes over chunks that did not come, when no more will; whether there were any, and [`Merger::advance`] can go on.
    pub fn skip_missing(&mut self) -> bool {
        let jumps = self.streams.iter_mut().map(|stream| stream.jump(&mut self.buffers));
        jumps.fold(false, |any, jumped| any | jumped)
    }
}

#[cfg(test)]
mod tests;
