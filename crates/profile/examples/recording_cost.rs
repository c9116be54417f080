//! What recording costs: nanoseconds and bytes an event, on streams of events like those of real
//! programs.
//!
//! ```text
//! cargo run --release -p heapwise-profile --example recording_cost
//! ```

use std::time::Instant;

use heapwise_format::event::{
    Block, Event, Freeing, MAX_EVENT_BYTES, encode_alloc, encode_free, encode_mark, encode_tick,
};
use heapwise_format::recording::FrameKind;
use heapwise_format::segment::Tally;
use heapwise_profile::recording::{EventAccounting, Merger, Piece, RawFrame, Until};

/// Level of events in files.
const LEVEL: i32 = 1;
/// Bytes of a chunk of the log.
const CHUNK_BYTES: usize = 65_000;
/// Events a millisecond.
const PACE: u64 = 5_000;

/// A stream of events being made.
struct Stream {
    chunks: Vec<Vec<u8>>,
    events: u64,
    ms: u64,
    seed: u64,
}

/// A block and when it was allocated.
type Live = (Block, u64);

impl Stream {
    fn new() -> Self {
        Self { chunks: vec![Vec::new()], events: 0, ms: 0, seed: 1 }
    }

    fn random(&mut self) -> u64 {
        // SplitMix64.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ self.seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn put(&mut self, event: &Event) {
        let mut out = [0; MAX_EVENT_BYTES];
        let len = match *event {
            Event::Alloc(block) => encode_alloc(&mut out, block),
            Event::Free { block, age_ms, how } => encode_free(&mut out, block, age_ms, how),
            Event::Tick(ms) => encode_tick(&mut out, ms),
            Event::Mark(marks) => encode_mark(&mut out, marks),
            Event::Unknown | Event::Gap(_) => 0,
        };
        if self.chunks.last().is_none_or(|chunk| chunk.len() > CHUNK_BYTES) {
            self.chunks.push(Vec::new());
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.extend_from_slice(&out[..len]);
        }
    }

    fn count(&mut self) {
        self.events += 1;
        if self.events.is_multiple_of(PACE) {
            self.ms += 1;
            self.put(&Event::Tick(self.ms));
        }
    }

    fn alloc(&mut self, tally: u32, size: u64) -> Live {
        let block = Block { tally, size, by_realloc: false };
        self.put(&Event::Alloc(block));
        self.count();
        (block, self.ms)
    }

    fn free(&mut self, (block, born_ms): Live, how: Freeing) {
        self.put(&Event::Free { block, age_ms: self.ms - born_ms, how });
        self.count();
    }
}

/// Binary trees of strings whose lengths vary: each path from the root is a stack.
fn trees() -> Stream {
    fn build(stream: &mut Stream, path: u32, depth: u32, live: &mut Vec<Live>) {
        live.push(stream.alloc(2 * path, 32));
        let length = 8 + stream.random() % 60;
        live.push(stream.alloc(2 * path + 1, length));
        if depth > 0 {
            build(stream, 2 * path, depth - 1, live);
            build(stream, 2 * path + 1, depth - 1, live);
        }
    }
    let (mut stream, mut live) = (Stream::new(), Vec::new());
    for _ in 0..58 {
        build(&mut stream, 1, 14, &mut live);
        live.drain(..).rev().for_each(|block| stream.free(block, Freeing::Plain));
    }
    stream
}

/// Random sizes up to `largest` from `sites` stacks, each replacing a random block of 4096.
fn random_sizes(blocks: u64, largest: u64, sites: u64) -> Stream {
    let (mut stream, mut slots) = (Stream::new(), vec![None; 4096]);
    for _ in 0..blocks {
        let (slot, tally) = ((stream.random() % 4096) as usize, 1 + (stream.random() % sites) as u32);
        if let Some(block) = slots[slot].take() {
            stream.free(block, Freeing::Plain);
        }
        let size = 1 + stream.random() % largest;
        slots[slot] = Some(stream.alloc(tally, size));
    }
    slots.into_iter().flatten().for_each(|block| stream.free(block, Freeing::Plain));
    stream
}

/// An interpreter: a loop over a few sites of constant sizes, half of the blocks temporary.
fn interpreter() -> Stream {
    let (mut stream, mut live) = (Stream::new(), std::collections::VecDeque::new());
    for step in 0..1_000_000u32 {
        let temporary = stream.alloc(1 + step % 7, 48);
        stream.free(temporary, Freeing::AtOnce);
        live.push_back(stream.alloc(20 + step % 13, 16 + u64::from(step % 13) * 8));
        if live.len() > 1000 {
            live.pop_front().into_iter().for_each(|block| stream.free(block, Freeing::Plain));
        }
    }
    stream
}

/// Records a stream as the recorder does; the frames.
fn record(stream: &Stream) -> Vec<RawFrame> {
    let (mut merger, mut account, mut frames) =
        (Merger::from_start(), EventAccounting::default(), Vec::new());
    let mut describe = |tally| Some(Tally { node: tally, ..Tally::default() });
    for (index, chunk) in stream.chunks.iter().enumerate() {
        let sequence = index as u32 + 1;
        let piece = Piece { stream: 0, thread: 0, sequence, is_complete: true, is_last: false };
        merger.feed(piece, chunk.len(), |room| {
            room.copy_from_slice(chunk);
            true
        });
        account.add_merged(&mut merger, Until::END, &mut describe);
        if account.is_due() {
            frames.append(&mut account.take_frames());
        }
    }
    account.end();
    frames.append(&mut account.take_frames());
    frames
}

fn packed_bytes(frames: &[RawFrame], is_meant: impl Fn(FrameKind) -> bool) -> usize {
    let meant = frames.iter().filter(|frame| is_meant(frame.header.kind));
    meant.map(|frame| zstd::bulk::compress(&frame.payload, LEVEL).map_or(0, |bytes| bytes.len())).sum()
}

fn main() {
    let streams = [
        ("trees of strings", trees()),
        ("random ≤ 20000, 64 stacks", random_sizes(2_000_000, 20_000, 64)),
        ("random ≤ 200000, 64 stacks", random_sizes(2_000_000, 200_000, 64)),
        ("random ≤ 60, 1024 stacks", random_sizes(2_000_000, 60, 1024)),
        ("interpreter", interpreter()),
    ];
    println!("{:<28} {:>9} {:>8} {:>10} {:>8}", "stream", "events", "ns/event", "bytes", "B/event");
    for (name, stream) in &streams {
        let mut nanoseconds = u128::MAX;
        let mut frames = Vec::new();
        for _ in 0..20 {
            let start = Instant::now();
            frames = record(stream);
            nanoseconds = nanoseconds.min(start.elapsed().as_nanos());
        }
        let bytes = packed_bytes(&frames, |_| true);
        let per_event = |sum: f64| sum / stream.events as f64;
        println!(
            "{name:<28} {:>9} {:>8.1} {bytes:>10} {:>8.3}",
            stream.events,
            per_event(nanoseconds as f64),
            per_event(bytes as f64)
        );
    }
}
