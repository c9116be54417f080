//! One thread's log: its chunks in sequence, read event by event.

use std::collections::VecDeque;

use heapwise_format::event::{Event, decode};

use super::{Buffers, Taker};

/// How far streams run: a millisecond, and the marks before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub ms: u64,
    pub marks: u64,
}

/// The chunks of one thread.
#[derive(Debug)]
pub(super) struct Stream {
    pub number: u32,
    pub thread: u32,
    chunks: VecDeque<Chunk>,
    /// Sequence of the chunk to read next or being read; `None` before the first of a thread that
    /// was there before the recording.
    current: Option<u32>,
    /// Time of the event that comes next.
    pub tick_ms: u64,
    /// Marks before that event.
    pub marks: u64,
    /// Whether an event is available, as of the last [`Stream::look_ahead`].
    pub has_event: bool,
    /// Whether that one has been refused for long enough.
    pub is_due: bool,
    /// Its last chunk is read to its end.
    pub is_ended: bool,
}

/// A chunk, as far as it was fed.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    sequence: u32,
    /// The chunk's bytes, and behind those that were fed anything.
    buffer: Vec<u8>,
    fed: usize,
    /// Position up to which it was read.
    at: usize,
    is_complete: bool,
    is_last: bool,
}

impl Chunk {
    /// Room for `len` further bytes.
    pub(super) fn room(&mut self, len: usize, buffers: &mut Buffers) -> &mut [u8] {
        let end = self.fed + len;
        if self.buffer.len() < end {
            let mut larger = buffers.take(end);
            larger[..self.fed].copy_from_slice(&self.buffer[..self.fed]);
            buffers.put_back(std::mem::replace(&mut self.buffer, larger));
        }
        &mut self.buffer[self.fed..end]
    }

    /// The room's first `len` bytes were filled.
    pub(super) fn add(&mut self, len: usize, is_complete: bool, is_last: bool) {
        self.fed += len;
        self.is_complete |= is_complete;
        self.is_last |= is_last;
    }

    /// Counts all of it as read.
    pub(super) fn skip_all(&mut self) {
        self.at = self.fed;
    }

    /// The next event and where it ends.
    fn next(&self) -> Option<(Event, usize)> {
        let mut at = self.at;
        Some((decode(&self.buffer[..self.fed], &mut at)?, at))
    }
}

impl Stream {
    pub(super) fn new(number: u32, thread: u32, first_chunk: Option<u32>, marks: u64) -> Self {
        Self {
            number,
            thread,
            chunks: VecDeque::new(),
            current: first_chunk,
            tick_ms: 0,
            marks,
            has_event: false,
            is_due: false,
            is_ended: false,
        }
    }

    /// The chunk of a sequence number, made if there is none.
    pub(super) fn chunk(&mut self, sequence: u32) -> &mut Chunk {
        let place = self.chunks.partition_point(|chunk| chunk.sequence < sequence);
        if self.chunks.get(place).is_none_or(|chunk| chunk.sequence != sequence) {
            self.chunks.insert(place, Chunk { sequence, ..Chunk::default() });
        }
        &mut self.chunks[place]
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.buffer.len()).sum()
    }

    /// Advances to the next event that is neither a tick nor a mark, if it is available.
    pub(super) fn look_ahead(&mut self, buffers: &mut Buffers) {
        self.has_event = false;
        while self.is_at_events(buffers)
            && let Some(chunk) = self.chunks.front_mut()
        {
            match chunk.next() {
                Some((Event::Tick(ms), end)) => (self.tick_ms, chunk.at) = (ms, end),
                Some((Event::Mark(marks), end)) => {
                    (self.marks, chunk.at) = (self.marks.max(marks), end);
                }
                Some(_) => {
                    self.has_event = true;
                    return;
                }
                None if self.leave_chunk(buffers) => {}
                None => return,
            }
        }
    }

    /// Whether the first available chunk is the one to be read.
    fn is_at_events(&mut self, buffers: &mut Buffers) -> bool {
        while let Some(chunk) = self.chunks.front() {
            let current = *self.current.get_or_insert(chunk.sequence);
            if chunk.sequence >= current {
                return chunk.sequence == current;
            }
            buffers.put_back(self.chunks.pop_front().unwrap_or_default().buffer);
        }
        false
    }

    /// Lets go of the first chunk if it is read to its end; `false` when more may come of it.
    fn leave_chunk(&mut self, buffers: &mut Buffers) -> bool {
        let left = self.chunks.pop_front_if(|chunk| chunk.is_complete && chunk.next().is_none());
        let Some(chunk) = left else { return false };
        self.is_ended = chunk.is_last;
        self.current = Some(chunk.sequence.wrapping_add(1));
        buffers.put_back(chunk.buffer);
        true
    }

    /// Delivers events of millisecond `now.ms` and before, behind no more than `now.marks`, until
    /// one is refused; returns whether there were any.
    pub(super) fn run(&mut self, now: Position, buffers: &mut Buffers, taker: &mut impl Taker) -> bool {
        let mut moved = false;
        while self.tick_ms <= now.ms && self.marks <= now.marks && self.is_at_events(buffers) {
            moved |= self.run_chunk(now, taker);
            if !self.leave_chunk(buffers) {
                break;
            }
        }
        self.look_ahead(buffers);
        moved
    }

    /// As `run`, within one chunk.
    fn run_chunk(&mut self, now: Position, taker: &mut impl Taker) -> bool {
        let Some(chunk) = self.chunks.front_mut() else { return false };
        let (bytes, thread) = (&chunk.buffer[..chunk.fed], self.thread);
        let (mut at, mut end, mut moved) = (chunk.at, chunk.at, false);
        let mut is_due = std::mem::take(&mut self.is_due);
        while let Some(event) = decode(bytes, &mut end) {
            if let Event::Tick(ms) = event {
                self.tick_ms = ms;
                at = end;
                if ms > now.ms {
                    break;
                }
                continue;
            }
            if let Event::Mark(marks) = event {
                self.marks = self.marks.max(marks);
                at = end;
                if self.marks > now.marks {
                    break;
                }
                continue;
            }
            if !taker.take(thread, now.ms, &event, is_due) && !is_due {
                break;
            }
            // A run is the common case, and ends with an event of another kind.
            at = end + taker.take_run(thread, now.ms, &bytes[end..]);
            (end, moved, is_due) = (at, true, false);
        }
        chunk.at = at;
        moved
    }

    /// Passes over a chunk that did not come, if the next one is there.
    pub(super) fn jump(&mut self, buffers: &mut Buffers) -> bool {
        if self.has_event || self.is_at_events(buffers) {
            return false;
        }
        let Some(first) = self.chunks.front() else { return false };
        self.current = Some(first.sequence);
        self.look_ahead(buffers);
        true
    }
}
