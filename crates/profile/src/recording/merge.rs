//! One true order from many threads' chunks.
//!
//! Each thread's events are in order by themselves. Across threads only events of one address need
//! an order, and their numbers give it: an event is taken when its number is the next of its shard.
//! Time comes second: within what the numbers allow, threads advance together millisecond by
//! millisecond, and the time of the merged stream never runs backwards.

use std::collections::VecDeque;

use heapwise_format::event::{Event, EventState, SHARDS, shard};
use rustc_hash::FxHashMap;

/// Merges the chunks of all threads of one process. A stream is one thread's log.
#[derive(Debug)]
pub struct Merger {
    streams: Vec<Stream>,
    places: FxHashMap<u32, usize>,
    order: Order,
    tick_ms: u64,
    first_chunk: Option<u32>,
}

/// Which number is next.
#[derive(Debug)]
struct Order {
    /// Next number of each shard; `None` until the first one is seen, when recording began in mid-run.
    next: [Option<u32>; SHARDS],
    /// Events that came after a later one of the same shard had been taken.
    late: u64,
}

/// A piece of a chunk as the drainer read it.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Number of the thread's log.
    pub stream: u32,
    /// The thread's record.
    pub thread: u32,
    /// Which chunk of the stream.
    pub sequence: u32,
    /// The bytes that follow what was fed of this chunk before.
    pub bytes: &'a [u8],
    /// No more will come for this chunk.
    pub is_complete: bool,
    /// No more chunks will come for this stream.
    pub is_last: bool,
}

/// The chunks of one thread.
#[derive(Debug)]
struct Stream {
    number: u32,
    thread: u32,
    chunks: VecDeque<Chunk>,
    /// Sequence of the chunk to read next or being read; `None` before the first of a thread that was
    /// there before the recording.
    current: Option<u32>,
    state: Box<EventState>,
    at: usize,
    tick_ms: u64,
    head: Option<Event>,
    is_ended: bool,
}

#[derive(Debug)]
struct Chunk {
    sequence: u32,
    bytes: Vec<u8>,
    is_complete: bool,
    is_last: bool,
}

impl Merger {
    /// A merger that sees the log from its first event.
    #[must_use]
    pub fn from_start() -> Self {
        Self::new(Some(0), Some(1))
    }

    /// A merger that joins a log in the middle: it takes the first numbers it sees as the next.
    #[must_use]
    pub fn from_now() -> Self {
        Self::new(None, None)
    }

    fn new(first_number: Option<u32>, first_chunk: Option<u32>) -> Self {
        Self {
            streams: Vec::new(),
            places: FxHashMap::default(),
            order: Order { next: [first_number; SHARDS], late: 0 },
            tick_ms: 0,
            first_chunk,
        }
    }

    /// Takes in a piece of a chunk.
    pub fn feed(&mut self, piece: Piece<'_>) {
        let sequence = piece.sequence;
        let stream = self.stream(piece.stream, piece.thread);
        let position = stream.chunks.iter().position(|chunk| chunk.sequence >= sequence);
        let place = position.unwrap_or(stream.chunks.len());
        if stream.chunks.get(place).is_none_or(|chunk| chunk.sequence != sequence) {
            stream
                .chunks
                .insert(place, Chunk { sequence, bytes: Vec::new(), is_complete: false, is_last: false });
        }
        if let Some(chunk) = stream.chunks.get_mut(place) {
            chunk.bytes.extend_from_slice(piece.bytes);
            chunk.is_complete |= piece.is_complete;
            chunk.is_last |= piece.is_last;
        }
    }

    /// Takes in a piece of a chunk that was written before the recording began: its events are not
    /// given out, but what follows cannot be decoded without them.
    pub fn feed_past(&mut self, piece: Piece<'_>) {
        self.feed(piece);
        let stream = self.stream(piece.stream, piece.thread);
        while stream.decode().is_some() {}
    }

    fn stream(&mut self, number: u32, thread: u32) -> &mut Stream {
        let place = *self.places.entry(number).or_insert_with(|| {
            self.streams.push(Stream {
                number,
                thread,
                chunks: VecDeque::new(),
                current: self.first_chunk,
                state: Box::default(),
                at: 0,
                tick_ms: 0,
                head: None,
                is_ended: false,
            });
            self.streams.len() - 1
        });
        &mut self.streams[place]
    }

    /// Forgets streams that have ended: a program may have any number of threads one after another.
    fn forget_ended(&mut self) {
        if self.streams.iter().any(|stream| stream.is_ended) {
            self.streams.retain(|stream| !stream.is_ended);
            let places = self.streams.iter().enumerate().map(|(place, stream)| (stream.number, place));
            self.places = places.collect();
        }
    }

    /// Events that came after a later one of the same shard had been taken.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.order.late
    }

    /// Bytes of chunks that are not yet read to their ends.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.streams.iter().flat_map(|stream| &stream.chunks).map(|chunk| chunk.bytes.len()).sum()
    }

    /// Gives out, in order, every event before millisecond `until_ms` that can be. Returns whether
    /// events before that remain, waiting for a number that has not arrived.
    pub fn advance(&mut self, until_ms: u64, mut take: impl FnMut(u32, u64, &Event)) -> bool {
        self.streams.iter_mut().for_each(Stream::load_head);
        loop {
            let Some(tick) = self.first_pending(0, until_ms) else {
                self.forget_ended();
                return false;
            };
            self.tick_ms = self.tick_ms.max(tick);
            if !self.run(&mut take) {
                // Everything up to now waits for a number drawn by an event a little later.
                let Some(later) = self.first_pending(self.tick_ms + 1, until_ms) else { return true };
                self.tick_ms = later;
            }
        }
    }

    /// Earliest millisecond in `from_ms..until_ms` at which an event waits.
    fn first_pending(&self, from_ms: u64, until_ms: u64) -> Option<u64> {
        let ticks = self.streams.iter().filter(|stream| stream.head.is_some()).map(|stream| stream.tick_ms);
        ticks.filter(|tick| (from_ms..until_ms).contains(tick)).min()
    }

    /// Runs every stream as far as time and numbers allow; whether any event was taken.
    fn run(&mut self, take: &mut impl FnMut(u32, u64, &Event)) -> bool {
        let mut progressed = false;
        loop {
            let mut moved = false;
            for stream in &mut self.streams {
                moved |= stream.run(self.tick_ms, &mut self.order, take);
            }
            if !moved {
                return progressed;
            }
            progressed = true;
        }
    }

    /// Gives up one number that will not come (its thread died between drawing and writing it), so that
    /// [`Merger::advance`] can go on; whether there was one.
    pub fn skip_missing(&mut self) -> bool {
        for stream in &mut self.streams {
            // A chunk that never came: read on with what is there.
            if let (None, Some(first)) = (&stream.head, stream.chunks.front()) {
                stream.current = Some(first.sequence);
                stream.load_head();
            }
        }
        let blocked = self.streams.iter().filter(|stream| stream.head.is_some());
        let Some(first) = blocked.min_by_key(|stream| stream.tick_ms).and_then(|stream| stream.head) else {
            return false;
        };
        if let Some((address, order)) = numbered(&first) {
            self.order.next[shard(address)] = Some(order);
        }
        true
    }
}

/// Address and number of an event that has them.
#[inline]
fn numbered(event: &Event) -> Option<(u64, u32)> {
    match *event {
        Event::Alloc { address, order, .. }
        | Event::Free { address, order }
        | Event::Kept { address, order } => Some((address, order)),
        Event::Tick(_) | Event::Gap(_) => None,
    }
}

impl Stream {
    /// Decodes up to the next event that is not a tick.
    #[inline]
    fn load_head(&mut self) {
        while self.head.is_none() {
            match self.decode() {
                Some(Event::Tick(ms)) => self.tick_ms = ms,
                other => {
                    self.head = other;
                    return;
                }
            }
        }
    }

    fn decode(&mut self) -> Option<Event> {
        while self.is_at_events() {
            let chunk = self.chunks.front()?;
            if let Some(event) = self.state.decode(&chunk.bytes, &mut self.at) {
                return Some(event);
            }
            if !self.leave_chunk() {
                return None;
            }
        }
        None
    }

    /// Whether the first chunk at hand is the one to be read.
    fn is_at_events(&mut self) -> bool {
        while let Some(chunk) = self.chunks.front() {
            let current = *self.current.get_or_insert(chunk.sequence);
            if chunk.sequence >= current {
                return chunk.sequence == current;
            }
            self.chunks.pop_front();
        }
        false
    }

    /// Lets go of a chunk that is read to its end; `false` when more may come for it.
    fn leave_chunk(&mut self) -> bool {
        let Some(chunk) = self.chunks.pop_front_if(|chunk| chunk.is_complete) else { return false };
        self.is_ended = chunk.is_last;
        self.current = Some(chunk.sequence.wrapping_add(1));
        *self.state = EventState::default();
        self.at = 0;
        true
    }

    /// Gives out events up to `now_ms`, as far as their numbers allow; whether there were any. The head is
    /// loaded afterwards.
    fn run(&mut self, now_ms: u64, order: &mut Order, take: &mut impl FnMut(u32, u64, &Event)) -> bool {
        let mut moved = false;
        while self.tick_ms <= now_ms && (self.head.is_some() || self.is_at_events()) {
            moved |= self.run_chunk(now_ms, order, take);
            if self.head.is_some() || self.tick_ms > now_ms || !self.leave_chunk() {
                break;
            }
        }
        self.load_head();
        moved
    }

    /// The same within one chunk. This loop is most of a recorder's work, so it keeps everything in its hands.
    #[inline]
    fn run_chunk(&mut self, now_ms: u64, order: &mut Order, take: &mut impl FnMut(u32, u64, &Event)) -> bool {
        let Some(chunk) = self.chunks.front() else { return false };
        let (bytes, state, thread) = (chunk.bytes.as_slice(), &mut *self.state, self.thread);
        let (mut at, mut moved) = (self.at, false);
        let mut head = self.head.take();
        // One place that hands events out, so that the taker becomes part of the loop.
        while let Some(event) = head.take().or_else(|| state.decode(bytes, &mut at)) {
            if let Event::Tick(ms) = event {
                self.tick_ms = ms;
                if ms > now_ms {
                    break;
                }
                continue;
            }
            if !order.admits(&event) {
                self.head = Some(event);
                break;
            }
            take(thread, now_ms, &event);
            moved = true;
        }
        self.at = at;
        moved
    }
}

impl Order {
    /// Whether an event may be taken now, with its number used up.
    #[inline(always)]
    fn admits(&mut self, event: &Event) -> bool {
        let Some((address, number)) = numbered(event) else { return true };
        let slot = &mut self.next[shard(address)];
        let ahead = number.wrapping_sub(slot.unwrap_or(number)) as i32;
        match ahead {
            0 => *slot = Some(number.wrapping_add(1)),
            1.. => return false,
            _ => self.late += 1,
        }
        true
    }
}

#[cfg(test)]
mod tests;
