//! Events of the log: what a thread did with the heap, in its own order, in words of eight bytes.
//!
//! ```text
//! bit   0  21 bits  bucket: number in the segment's table, 0 for none
//! bit  21  13 bits  of frees, the record of the thread that allocated; all ones for none
//! bit  34  26 bits  of frees, the block's age in milliseconds; all ones: a word of its own follows
//! bit  60   4 bits  kind
//! others            ticks and gaps have a value of 60 bits instead
//! ```
//!
//! **No addresses.** A block's bucket and birth are kept by the program itself, beside the block: whoever allocated it has written them
//! down before anybody else sees the block, and whoever frees it takes them out before the allocator can hand the address
//! out again. So a free says what went, no event needs another to be understood, and none needs a place among
//! those of other threads but by time: within a millisecond, their order is not known.

/// Longest encoding of one event: what must be free before one is written.
pub const MAX_EVENT_BYTES: usize = 2 * WORD;
const WORD: usize = 8;

/// Buckets have smaller numbers.
pub const MOST_BUCKETS: u64 = 1 << BUCKET_BITS;
/// The record of a thread that has none.
pub const NO_THREAD: u32 = (1 << THREAD_BITS) - 1;

/// Where a block came from: its bucket and the record of the thread that allocated it, in the places where events have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin(u64);

impl Origin {
    /// Bits of an origin; the others are the owner's.
    pub const BITS: u32 = BUCKET_BITS + THREAD_BITS;

    /// Of a bucket below [`MOST_BUCKETS`] and a thread up to [`NO_THREAD`].
    #[inline(always)]
    #[must_use]
    pub fn new(bucket: u32, thread: u32) -> Self {
        Self(u64::from(bucket) | u64::from(thread) << BUCKET_BITS)
    }

    /// What [`Origin::bits`] gave, with anything above.
    #[inline(always)]
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// A number below 2^[`Origin::BITS`], and not 0 unless the bucket is.
    #[inline(always)]
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The bucket.
    #[inline(always)]
    #[must_use]
    pub fn bucket(self) -> u32 {
        (self.0 & BUCKET_MASK) as u32
    }

    /// The thread.
    #[inline(always)]
    #[must_use]
    pub fn thread(self) -> u32 {
        (self.0 >> BUCKET_BITS) as u32
    }
}

/// How a block went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freeing {
    /// It was freed.
    Plain,
    /// It was freed, and nothing happened in this thread's log since it came.
    AtOnce,
    /// It went unseen some time before: its address was handed out again.
    Missed,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A block came.
    Alloc {
        /// Its bucket.
        bucket: u32,
    },
    /// A block went.
    Free {
        /// Its bucket.
        bucket: u32,
        /// Record of the thread that allocated it.
        thread: u32,
        /// Milliseconds that it lived.
        age_ms: u64,
        /// How it went.
        how: Freeing,
    },
    /// A block went that was never seen to come.
    Unknown,
    /// Milliseconds since the start of the recording, for the events that follow.
    Tick(u64),
    /// Events of this thread that found no room and are missing here.
    Gap(u64),
}

const BUCKET_BITS: u32 = 21;
const THREAD_BITS: u32 = 13;
const AGE_SHIFT: u32 = Origin::BITS;
const KIND_SHIFT: u32 = 60;
const BUCKET_MASK: u64 = MOST_BUCKETS - 1;
const VALUE_MASK: u64 = (1 << KIND_SHIFT) - 1;
/// The age that says: the age is beyond.
const OLD: u64 = (1 << (KIND_SHIFT - AGE_SHIFT)) - 1;

// Not 0, so that what was never written is no event.
const ALLOC: u64 = 1;
const FREE: u64 = 2;
const FREE_AT_ONCE: u64 = 3;
const MISSED: u64 = 4;
const UNKNOWN: u64 = 5;
const TICK: u64 = 6;
const GAP: u64 = 7;

/// Room for an event.
pub type Room = [u8; MAX_EVENT_BYTES];

/// Writes an allocation; returns its length.
#[inline(always)]
pub fn encode_alloc(out: &mut Room, bucket: u32) -> usize {
    put(out, ALLOC << KIND_SHIFT | u64::from(bucket))
}

/// Writes a free; returns its length.
#[inline(always)]
pub fn encode_free(out: &mut Room, origin: Origin, age_ms: u64, how: Freeing) -> usize {
    let kind = match how {
        Freeing::Plain => FREE,
        Freeing::AtOnce => FREE_AT_ONCE,
        Freeing::Missed => MISSED,
    };
    let word = origin.0 | kind << KIND_SHIFT;
    if age_ms >= OLD {
        return put_old(out, word, age_ms);
    }
    put(out, word | age_ms << AGE_SHIFT)
}

#[cold]
#[inline(never)]
fn put_old(out: &mut Room, word: u64, age_ms: u64) -> usize {
    out[WORD..].copy_from_slice(&age_ms.to_le_bytes());
    put(out, word | OLD << AGE_SHIFT) + WORD
}

/// Writes the free of a block that was never seen to come; returns its length.
pub fn encode_unknown(out: &mut Room) -> usize {
    put(out, UNKNOWN << KIND_SHIFT)
}

/// Writes a tick; returns its length.
pub fn encode_tick(out: &mut Room, milliseconds: u64) -> usize {
    put(out, TICK << KIND_SHIFT | milliseconds.min(VALUE_MASK))
}

/// Writes a gap; returns its length.
pub fn encode_gap(out: &mut Room, events: u64) -> usize {
    put(out, GAP << KIND_SHIFT | events.min(VALUE_MASK))
}

#[inline(always)]
fn put(out: &mut Room, word: u64) -> usize {
    out[..WORD].copy_from_slice(&word.to_le_bytes());
    WORD
}

#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + WORD)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

/// Decodes the event at `*at` and moves `*at` behind it; `None` when the bytes end first, or make no sense, with
/// `*at` as it was.
#[inline(always)]
pub fn decode(bytes: &[u8], at: &mut usize) -> Option<Event> {
    let word = word_at(bytes, *at)?;
    let (bucket, value) = ((word & BUCKET_MASK) as u32, word & VALUE_MASK);
    let event = match word >> KIND_SHIFT {
        ALLOC => Event::Alloc { bucket },
        kind @ (FREE | FREE_AT_ONCE | MISSED) => {
            let how = match kind {
                FREE => Freeing::Plain,
                FREE_AT_ONCE => Freeing::AtOnce,
                _ => Freeing::Missed,
            };
            let thread = Origin::from_bits(word).thread();
            let mut age_ms = value >> AGE_SHIFT;
            if age_ms == OLD {
                age_ms = word_at(bytes, *at + WORD)?;
                *at += WORD;
            }
            Event::Free { bucket, thread, age_ms, how }
        }
        UNKNOWN => Event::Unknown,
        TICK => Event::Tick(value),
        GAP => Event::Gap(value),
        _ => return None,
    };
    *at += WORD;
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// A small generator of numbers (xorshift), so that tests are deterministic.
    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    fn events(count: usize) -> Vec<Event> {
        let mut seed = 0x9e37_79b9;
        (0..count)
            .map(|row| {
                let r = next(&mut seed);
                let bucket = (next(&mut seed) >> 43 >> (r & 15)) as u32;
                let free = |how| Event::Free {
                    bucket,
                    thread: (r >> 40) as u32 & NO_THREAD,
                    age_ms: next(&mut { seed }) >> (r >> 8 & 63),
                    how,
                };
                match r >> 16 & 7 {
                    0 => Event::Tick(row as u64 * 3),
                    1 => Event::Gap(r >> 20),
                    2 => Event::Unknown,
                    3 => free(Freeing::Plain),
                    4 => free(Freeing::AtOnce),
                    5 => free(Freeing::Missed),
                    _ => Event::Alloc { bucket },
                }
            })
            .collect()
    }

    fn encode(event: &Event, out: &mut Room) -> usize {
        match *event {
            Event::Alloc { bucket } => encode_alloc(out, bucket),
            Event::Free { bucket, thread, age_ms, how } => {
                encode_free(out, Origin::new(bucket, thread), age_ms, how)
            }
            Event::Unknown => encode_unknown(out),
            Event::Tick(ms) => encode_tick(out, ms),
            Event::Gap(events) => encode_gap(out, events),
        }
    }

    fn encode_all(events: &[Event]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for event in events {
            let mut out = [0; MAX_EVENT_BYTES];
            let len = encode(event, &mut out);
            bytes.extend_from_slice(&out[..len]);
        }
        bytes
    }

    fn decode_all(bytes: &[u8]) -> Vec<Event> {
        let mut at = 0;
        core::iter::from_fn(|| decode(bytes, &mut at)).collect()
    }

    #[test]
    fn round_trip() {
        let events = events(20_000);
        assert_eq!(decode_all(&encode_all(&events)), events);
    }

    #[test]
    fn cut_at_every_byte_gives_a_prefix() {
        // Quadratic; under Miri a few are enough.
        let events = events(if cfg!(miri) { 10 } else { 200 });
        let bytes = encode_all(&events);
        for cut in 0..bytes.len() {
            let decoded = decode_all(&bytes[..cut]);
            assert!(decoded.len() < events.len() && events.starts_with(&decoded), "{cut}");
        }
    }

    #[test]
    fn a_cut_event_can_be_decoded_when_the_rest_arrives() {
        let events = events(if cfg!(miri) { 20 } else { 500 });
        let bytes = encode_all(&events);
        let (mut at, mut decoded) = (0, Vec::new());
        for end in 0..=bytes.len() {
            while let Some(event) = decode(&bytes[..end], &mut at) {
                decoded.push(event);
            }
        }
        assert_eq!(decoded, events);
    }

    #[test]
    fn any_bytes_decode_without_panic() {
        let mut seed = 7;
        for _ in 0..200 {
            let bytes: Vec<u8> = (0..300).map(|_| next(&mut seed) as u8).collect();
            decode_all(&bytes);
        }
    }

    #[test]
    fn what_is_beyond_a_word_is_at_the_limits() {
        let free =
            |age_ms, thread| Event::Free { bucket: BUCKET_MASK as u32, thread, age_ms, how: Freeing::Missed };
        let limits = [
            free(OLD - 1, 0),
            free(OLD, NO_THREAD),
            free(u64::MAX, NO_THREAD - 1),
            Event::Alloc { bucket: BUCKET_MASK as u32 },
            Event::Tick(VALUE_MASK),
        ];
        assert_eq!(decode_all(&encode_all(&limits)), limits);
    }

    #[test]
    fn what_was_never_written_is_no_event() {
        assert_eq!(decode_all(&[0; 64]), []);
    }
}
