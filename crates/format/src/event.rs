//! Events of the log: what a thread did with the heap, in its own order, in words of eight bytes.
//!
//! ```text
//! bit   0  25 bits  tally of the block
//! bit  25  35 bits  allocations: size in bytes; all ones: the size is in a second word
//!          17 bits  frees: size in bytes, and
//! bit  42  18 bits  the block's age in milliseconds; all ones in both: size and age are in two
//!                   more words
//! bit  60   4 bits  kind
//! others            ticks, gaps and marks have a value of 60 bits instead
//! ```
//!
//! **No addresses.** The probe keeps tally, size and allocation time of each live block: the
//! allocating thread stores them before the program gets the block, and the freeing thread removes
//! them before the allocator can reuse the address. So a free describes its block completely, and
//! no event needs another one to be understood. Events of different threads are ordered by
//! millisecond and by mark only.

/// Longest encoding of one event: what must be free before one is written.
pub const MAX_EVENT_BYTES: usize = 3 * WORD;
const WORD: usize = 8;

/// Tallies have smaller numbers.
pub const MOST_TALLIES: u64 = 1 << 23;
/// The age of a block that was allocated before the recording began.
pub const UNKNOWN_AGE: u64 = u64::MAX;

/// How a block was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freeing {
    /// By a call.
    Plain,
    /// By a call that is the thread's next event after the allocation.
    AtOnce,
    /// By a call that was not seen, some time before: the allocator returned its address again.
    Missed,
}

/// A block: where it was allocated, and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its tally, which names the stack and the allocating thread.
    pub tally: u32,
    /// Requested bytes.
    pub size: u64,
    /// Whether `realloc` returned it.
    pub by_realloc: bool,
}

/// An event of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A block was allocated.
    Alloc(Block),
    /// A block was freed.
    Free {
        /// The block.
        block: Block,
        /// Milliseconds since its allocation, or [`UNKNOWN_AGE`].
        age_ms: u64,
        /// How it was freed.
        how: Freeing,
    },
    /// A block was freed whose allocation was not recorded.
    Unknown,
    /// Milliseconds since the start of the recording, for the events that follow.
    Tick(u64),
    /// Events of this thread that found no room and are missing here.
    Gap(u64),
    /// The events that follow happened after so many marks of the process.
    Mark(u64),
}

const TALLY_BITS: u32 = 25;
const TALLY_MASK: u64 = (1 << TALLY_BITS) - 1;
const KIND_SHIFT: u32 = 60;
const VALUE_MASK: u64 = (1 << KIND_SHIFT) - 1;
/// Bits of an allocation's size; all ones: in the second word.
const ALLOC_SIZE_BITS: u32 = KIND_SHIFT - TALLY_BITS;
const LONG_ALLOC: u64 = (1 << ALLOC_SIZE_BITS) - 1;
/// Bits of a free's size and age.
const FREE_SIZE_BITS: u32 = 17;
const AGE_SHIFT: u32 = TALLY_BITS + FREE_SIZE_BITS;
const AGE_BITS: u32 = KIND_SHIFT - AGE_SHIFT;
const LONG_SIZE: u64 = (1 << FREE_SIZE_BITS) - 1;
const LONG_AGE: u64 = (1 << AGE_BITS) - 1;

// Not 0: memory that was never written holds no event.
const ALLOC: u64 = 1;
const REALLOC: u64 = 2;
const FREE: u64 = 3;
const FREE_AT_ONCE: u64 = 4;
const MISSED: u64 = 5;
const UNKNOWN: u64 = 6;
const TICK: u64 = 7;
const GAP: u64 = 8;
const MARK: u64 = 9;
/// Added to the kind of a free when `realloc` returned the block.
const OF_REALLOC: u64 = 7;

/// Room for an event.
pub type Room = [u8; MAX_EVENT_BYTES];

/// Writes an allocation; returns its length.
#[inline(always)]
pub fn encode_alloc(out: &mut Room, block: Block) -> usize {
    let kind = if block.by_realloc { REALLOC } else { ALLOC };
    let word = kind << KIND_SHIFT | u64::from(block.tally);
    if block.size >= LONG_ALLOC {
        return put_long(out, word | LONG_ALLOC << TALLY_BITS, &[block.size]);
    }
    put(out, word | block.size << TALLY_BITS)
}

/// Writes a free; returns its length.
#[inline(always)]
pub fn encode_free(out: &mut Room, block: Block, age_ms: u64, how: Freeing) -> usize {
    let kind = match how {
        Freeing::Plain => FREE,
        Freeing::AtOnce => FREE_AT_ONCE,
        Freeing::Missed => MISSED,
    };
    let kind = if block.by_realloc { kind + OF_REALLOC } else { kind };
    let word = kind << KIND_SHIFT | u64::from(block.tally);
    if block.size >= LONG_SIZE || age_ms >= LONG_AGE {
        let long = word | LONG_SIZE << TALLY_BITS | LONG_AGE << AGE_SHIFT;
        return put_long(out, long, &[block.size, age_ms]);
    }
    put(out, word | block.size << TALLY_BITS | age_ms << AGE_SHIFT)
}

#[cold]
#[inline(never)]
fn put_long(out: &mut Room, word: u64, more: &[u64]) -> usize {
    for (place, word) in out[WORD..].chunks_exact_mut(WORD).zip(more) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    put(out, word) + more.len() * WORD
}

/// Writes the free of a block whose allocation was not recorded; returns its length.
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

/// Writes that the events behind it happened after so many marks; returns its length.
pub fn encode_mark(out: &mut Room, marks: u64) -> usize {
    put(out, MARK << KIND_SHIFT | marks.min(VALUE_MASK))
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

/// Decodes the event at `*at` and moves `*at` behind it; `None` when the bytes end first, or are
/// not an event, with `*at` as it was.
#[inline(always)]
pub fn decode(bytes: &[u8], at: &mut usize) -> Option<Event> {
    let word = word_at(bytes, *at)?;
    let (tally, value, kind) = ((word & TALLY_MASK) as u32, word & VALUE_MASK, word >> KIND_SHIFT);
    let mut end = *at + WORD;
    let event = match kind {
        ALLOC | REALLOC => {
            let mut size = value >> TALLY_BITS;
            if size == LONG_ALLOC {
                size = word_at(bytes, end)?;
                end += WORD;
            }
            Event::Alloc(Block { tally, size, by_realloc: kind == REALLOC })
        }
        UNKNOWN => Event::Unknown,
        TICK => Event::Tick(value),
        GAP => Event::Gap(value),
        MARK => Event::Mark(value),
        kind => {
            let by_realloc = kind > MARK;
            let how = match if by_realloc { kind - OF_REALLOC } else { kind } {
                FREE => Freeing::Plain,
                FREE_AT_ONCE => Freeing::AtOnce,
                MISSED => Freeing::Missed,
                _ => return None,
            };
            let (mut size, mut age_ms) = (value >> TALLY_BITS & LONG_SIZE, value >> AGE_SHIFT);
            if size == LONG_SIZE && age_ms == LONG_AGE {
                (size, age_ms) = (word_at(bytes, end)?, word_at(bytes, end + WORD)?);
                end += 2 * WORD;
            }
            Event::Free { block: Block { tally, size, by_realloc }, age_ms, how }
        }
    };
    *at = end;
    Some(event)
}

/// Length of the event at `at` if that frees the `block` that the event before it allocated, at
/// once; 0 if it is another event, `None` when none is there or the size takes more than a word.
#[inline(always)]
#[must_use]
pub fn freed_at_once(block: Block, bytes: &[u8], at: usize) -> Option<usize> {
    let word = word_at(bytes, at)? & !(LONG_AGE << AGE_SHIFT);
    let is_free = word == FREE_AT_ONCE << KIND_SHIFT | block.size << TALLY_BITS | u64::from(block.tally);
    (block.size < LONG_SIZE).then_some(if is_free { WORD } else { 0 })
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
                let block = Block {
                    tally: (next(&mut seed) >> 39 >> (r & 15)) as u32,
                    size: next(&mut { seed }) >> (r >> 8 & 63),
                    by_realloc: r >> 63 != 0,
                };
                let free = |how| Event::Free { block, age_ms: next(&mut { r }) >> (r >> 32 & 63), how };
                match r >> 16 & 7 {
                    0 => Event::Tick(row as u64 * 3),
                    1 => Event::Gap(r >> 20),
                    2 if r & 1 == 0 => Event::Unknown,
                    2 => Event::Mark(row as u64),
                    3 => free(Freeing::Plain),
                    4 => free(Freeing::AtOnce),
                    5 => free(Freeing::Missed),
                    _ => Event::Alloc(block),
                }
            })
            .collect()
    }

    fn encode(event: &Event, out: &mut Room) -> usize {
        match *event {
            Event::Alloc(block) => encode_alloc(out, block),
            Event::Free { block, age_ms, how } => encode_free(out, block, age_ms, how),
            Event::Unknown => encode_unknown(out),
            Event::Tick(ms) => encode_tick(out, ms),
            Event::Gap(events) => encode_gap(out, events),
            Event::Mark(marks) => encode_mark(out, marks),
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
    fn values_at_the_limits_of_a_word() {
        let block = |size| Block { tally: MOST_TALLIES as u32 - 1, size, by_realloc: true };
        let free = |size, age_ms| Event::Free { block: block(size), age_ms, how: Freeing::Missed };
        let limits = [
            free(LONG_SIZE - 1, LONG_AGE - 1),
            free(LONG_SIZE, 0),
            free(0, LONG_AGE),
            free(LONG_SIZE, LONG_AGE),
            free(u64::MAX, UNKNOWN_AGE),
            Event::Alloc(block(LONG_ALLOC - 1)),
            Event::Alloc(block(LONG_ALLOC)),
            Event::Alloc(block(u64::MAX)),
            Event::Tick(VALUE_MASK),
        ];
        assert_eq!(decode_all(&encode_all(&limits)), limits);
    }

    #[test]
    fn what_was_never_written_is_no_event() {
        assert_eq!(decode_all(&[0; 64]), []);
    }
}
