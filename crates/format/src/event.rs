//! Events as the probe writes them into chunks: which block came or went, on which thread, when.
//!
//! ```text
//! word           address / 16: 44 | order: 13 | kind: 3 | address % 16: 4   (from the lowest bit on)
//! order beyond   if the order above is 8191: a word
//! allocations    a word: size: 32 | node: 32
//! size beyond    if the size above is 4294967295: a word
//! others         ticks and gaps have a value of 57 bits where address and order were
//! ```
//!
//! Words of eight bytes, little-endian, in the places where the program's own registers have them: an event is written in
//! the middle of somebody's `malloc`, where shifting bytes together would cost more than their room in a chunk
//! that is used again in a moment. An address of more than 48 bits has its upper bits in a word of kind "high" before the
//! event.
//!
//! **Order.** Only events of one address need a total order, and clocks do not give one. Addresses
//! are spread over [`SHARDS`] counters; an allocation takes its number after the real allocator
//! returned, a free before the real free runs, so the numbers of one address are in true order on any
//! machine. What is written is the distance from the thread's last number of that shard, and
//! nothing at all while no other thread uses the shard.
//!
//! **State** starts at zero in every chunk ([`EventState::default`]), so each chunk decodes on its own.

/// Number of order counters.
pub const SHARDS: usize = 256;
/// Longest encoding of one event: what must be free before one is written.
pub const MAX_EVENT_BYTES: usize = 5 * WORD;
const WORD: usize = 8;

/// The order counter that an address belongs to.
#[inline]
#[must_use]
pub fn shard(address: u64) -> usize {
    ((address >> 12 ^ address >> 20) as usize) & (SHARDS - 1)
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A block came.
    Alloc {
        /// Its address.
        address: u64,
        /// Bytes asked for.
        size: u64,
        /// Stack tree node of the caller.
        node: u32,
        /// Number drawn from the address's shard.
        order: u32,
        /// Whether `realloc` made it; the block it replaces is the thread's preceding event.
        realloc: bool,
    },
    /// A block is about to go.
    Free {
        /// Its address.
        address: u64,
        /// Number drawn from the address's shard.
        order: u32,
    },
    /// A block was about to go and stayed: a `realloc` that failed. It only uses up its number.
    Kept {
        /// Its address.
        address: u64,
        /// Number drawn from the address's shard.
        order: u32,
    },
    /// Milliseconds since the start of the recording, for the events that follow.
    Tick(u64),
    /// Events of this thread that found no room and are missing here.
    Gap(u64),
}

const ALLOC: u64 = 0;
const REALLOC: u64 = 1;
const FREE: u64 = 2;
const KEPT: u64 = 3;
const TICK: u64 = 4;
const GAP: u64 = 5;
const HIGH: u64 = 6;
const KIND_SHIFT: u32 = 57;
const KIND_MASK: u64 = 7;
const VALUE_MASK: u64 = (1 << KIND_SHIFT) - 1;

/// Bits of an address that go into an event's word: those of user space.
const ADDRESS_BITS: u32 = 48;
/// Its lowest bits, which are zero for what allocators return, become the word's highest.
const ROTATED: u32 = 4;
const ADDRESS_MASK: u64 = ((1 << ADDRESS_BITS) - 1_u64).rotate_right(ROTATED);
const ORDER_SHIFT: u32 = ADDRESS_BITS - ROTATED;
/// The order that says: the order is beyond.
const FAR_ORDER: u64 = (1 << (KIND_SHIFT - ORDER_SHIFT)) - 1;
/// The size that says: the size is beyond.
const LARGE: u64 = u32::MAX as u64;

/// What both ends remember from event to event within a chunk.
#[derive(Debug, Clone)]
pub struct EventState {
    orders: [u32; SHARDS],
}

impl Default for EventState {
    fn default() -> Self {
        Self::new()
    }
}

/// Words put one behind the other.
struct Writer<'a> {
    out: &'a mut [u8; MAX_EVENT_BYTES],
    at: usize,
}

impl Writer<'_> {
    #[inline(always)]
    fn word(&mut self, word: u64) {
        if let Some(target) = self.out.get_mut(self.at..self.at + WORD) {
            target.copy_from_slice(&word.to_le_bytes());
        }
        self.at += WORD;
    }
}

impl EventState {
    /// The state at the start of a chunk.
    #[must_use]
    pub const fn new() -> Self {
        Self { orders: [0; SHARDS] }
    }

    /// The distance to `order` from the last one of the shard.
    #[inline(always)]
    fn order_delta(&mut self, address: u64, order: u32) -> u64 {
        let last = &mut self.orders[shard(address)];
        let delta = order.wrapping_sub(*last);
        *last = order.wrapping_add(1);
        delta.into()
    }

    /// Appends an allocation to `out`; returns its length.
    #[inline(always)]
    pub fn encode_alloc(
        &mut self,
        out: &mut [u8; MAX_EVENT_BYTES],
        (address, size): (u64, u64),
        node: u32,
        order: u32,
        realloc: bool,
    ) -> usize {
        let kind = if realloc { REALLOC } else { ALLOC };
        let delta = self.order_delta(address, order);
        let mut writer = Writer { out, at: 0 };
        if delta >= FAR_ORDER || size >= LARGE || address >> ADDRESS_BITS != 0 {
            return long_alloc(writer, kind, address, delta, size, node);
        }
        writer.word(first_word(kind, address, delta));
        writer.word(size | u64::from(node) << 32);
        writer.at
    }

    /// Appends a free to `out`; returns its length.
    #[inline(always)]
    pub fn encode_free(&mut self, out: &mut [u8; MAX_EVENT_BYTES], address: u64, order: u32) -> usize {
        self.encode_address(out, FREE, address, order)
    }

    /// Appends a free that did not happen to `out`; returns its length.
    pub fn encode_kept(&mut self, out: &mut [u8; MAX_EVENT_BYTES], address: u64, order: u32) -> usize {
        self.encode_address(out, KEPT, address, order)
    }

    #[inline(always)]
    fn encode_address(
        &mut self,
        out: &mut [u8; MAX_EVENT_BYTES],
        kind: u64,
        address: u64,
        order: u32,
    ) -> usize {
        let delta = self.order_delta(address, order);
        let mut writer = Writer { out, at: 0 };
        if delta >= FAR_ORDER || address >> ADDRESS_BITS != 0 {
            return long_words(writer, kind, address, delta).at;
        }
        writer.word(first_word(kind, address, delta));
        writer.at
    }

    /// Appends a tick to `out`; returns its length.
    pub fn encode_tick(out: &mut [u8; MAX_EVENT_BYTES], milliseconds: u64) -> usize {
        encode_value(out, TICK, milliseconds)
    }

    /// Appends a gap to `out`; returns its length.
    pub fn encode_gap(out: &mut [u8; MAX_EVENT_BYTES], events: u64) -> usize {
        encode_value(out, GAP, events)
    }
}

/// The word of an event whose address and order are not beyond it.
#[inline(always)]
fn first_word(kind: u64, address: u64, delta: u64) -> u64 {
    address.rotate_right(ROTATED) | delta << ORDER_SHIFT | kind << KIND_SHIFT
}

/// The words of an event up to its order, some of which may be beyond.
#[cold]
#[inline(never)]
fn long_words<'a>(mut writer: Writer<'a>, kind: u64, address: u64, delta: u64) -> Writer<'a> {
    let high = address >> ADDRESS_BITS;
    if high != 0 {
        writer.word(high | HIGH << KIND_SHIFT);
    }
    let low = address & ((1 << ADDRESS_BITS) - 1);
    writer.word(first_word(kind, low, delta.min(FAR_ORDER)));
    if delta >= FAR_ORDER {
        writer.word(delta);
    }
    writer
}

#[cold]
#[inline(never)]
fn long_alloc(writer: Writer<'_>, kind: u64, address: u64, delta: u64, size: u64, node: u32) -> usize {
    let mut writer = long_words(writer, kind, address, delta);
    writer.word(size.min(LARGE) | u64::from(node) << 32);
    if size >= LARGE {
        writer.word(size);
    }
    writer.at
}

fn encode_value(out: &mut [u8; MAX_EVENT_BYTES], kind: u64, value: u64) -> usize {
    let mut writer = Writer { out, at: 0 };
    writer.word(value.min(VALUE_MASK) | kind << KIND_SHIFT);
    writer.at
}

/// Reads the words of one event.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    #[inline(always)]
    fn word(&mut self) -> Option<u64> {
        let word = self.bytes.get(self.at..self.at + WORD)?;
        self.at += WORD;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }
}

impl EventState {
    /// Decodes the event at `*at` and moves `*at` behind it; `None` when the bytes end first, or make no sense, with
    /// `*at` and the state as they were.
    #[inline(always)]
    pub fn decode(&mut self, bytes: &[u8], at: &mut usize) -> Option<Event> {
        let mut reader = Reader { bytes, at: *at };
        let mut word = reader.word()?;
        let mut high = 0;
        if word >> KIND_SHIFT & KIND_MASK == HIGH {
            high = (word & VALUE_MASK) << ADDRESS_BITS;
            word = reader.word()?;
        }
        let kind = word >> KIND_SHIFT & KIND_MASK;
        if kind > KEPT {
            let value = word & VALUE_MASK;
            let event = match kind {
                TICK => Event::Tick(value),
                GAP => Event::Gap(value),
                _ => return None,
            };
            *at = reader.at;
            return Some(event);
        }
        let mut delta = word >> ORDER_SHIFT & FAR_ORDER;
        if delta == FAR_ORDER {
            delta = reader.word()?;
        }
        let address = (word & ADDRESS_MASK).rotate_left(ROTATED) | high;
        let event = if kind <= REALLOC {
            let second = reader.word()?;
            let mut size = second & LARGE;
            if size == LARGE {
                size = reader.word()?;
            }
            let order = self.order(address, delta);
            Event::Alloc { address, size, node: (second >> 32) as u32, order, realloc: kind == REALLOC }
        } else {
            let order = self.order(address, delta);
            if kind == FREE { Event::Free { address, order } } else { Event::Kept { address, order } }
        };
        *at = reader.at;
        Some(event)
    }

    #[inline(always)]
    fn order(&mut self, address: u64, delta: u64) -> u32 {
        let last = &mut self.orders[shard(address)];
        let order = last.wrapping_add(delta as u32);
        *last = order.wrapping_add(1);
        order
    }
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
        let mut orders = [0u32; SHARDS];
        let mut draw = |address: u64, skip: u64| {
            let order = &mut orders[shard(address)];
            *order = order.wrapping_add(1 + (skip % 3) as u32 * 5000);
            *order
        };
        (0..count)
            .map(|row| {
                let r = next(&mut seed);
                let far = if r & 64 == 0 { 0x5555_0000_0000 } else { 0x7fff_1234_0000 };
                let beyond = if r >> 32 & 31 == 0 { 0x0123 << ADDRESS_BITS } else { 0 };
                let address = beyond | (far + (r >> 40) * if r & 3 == 0 { 1 } else { 16 });
                match r >> 8 & 7 {
                    0 => Event::Tick(row as u64 * 3),
                    1 => Event::Gap(r >> 20),
                    2 => Event::Kept { address, order: draw(address, r >> 11) },
                    3 => Event::Free { address, order: draw(address, r >> 11) },
                    _ => Event::Alloc {
                        address,
                        size: next(&mut seed) >> (r & 63),
                        node: next(&mut seed) as u32 >> (r & 31),
                        order: draw(address, r >> 11),
                        realloc: r & 1 << 20 != 0,
                    },
                }
            })
            .collect()
    }

    fn encode(state: &mut EventState, event: &Event, out: &mut [u8; MAX_EVENT_BYTES]) -> usize {
        match *event {
            Event::Alloc { address, size, node, order, realloc } => {
                state.encode_alloc(out, (address, size), node, order, realloc)
            }
            Event::Free { address, order } => state.encode_free(out, address, order),
            Event::Kept { address, order } => state.encode_kept(out, address, order),
            Event::Tick(ms) => EventState::encode_tick(out, ms),
            Event::Gap(events) => EventState::encode_gap(out, events),
        }
    }

    fn encode_all(events: &[Event]) -> Vec<u8> {
        let mut state = EventState::default();
        let mut bytes = Vec::new();
        for event in events {
            let mut out = [0; MAX_EVENT_BYTES];
            let len = encode(&mut state, event, &mut out);
            bytes.extend_from_slice(&out[..len]);
        }
        bytes
    }

    fn decode_all(bytes: &[u8]) -> Vec<Event> {
        let (mut state, mut at) = (EventState::default(), 0);
        core::iter::from_fn(|| state.decode(bytes, &mut at)).collect()
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
        let (mut state, mut at, mut decoded) = (EventState::default(), 0, Vec::new());
        for end in 0..=bytes.len() {
            while let Some(event) = state.decode(&bytes[..end], &mut at) {
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
        let alloc =
            |size, order| Event::Alloc { address: 0x1000, size, node: u32::MAX, order, realloc: true };
        let limits = [
            alloc(LARGE - 1, FAR_ORDER as u32 - 1),
            alloc(LARGE, 2 * FAR_ORDER as u32),
            alloc(u64::MAX, u32::MAX),
            Event::Free { address: (1 << ADDRESS_BITS) - 1, order: 0 },
            Event::Free { address: u64::MAX, order: u32::MAX - 1 },
            Event::Tick(VALUE_MASK),
        ];
        assert_eq!(decode_all(&encode_all(&limits)), limits);
    }

    #[test]
    fn common_events_are_short() {
        let mut state = EventState::default();
        let mut out = [0; MAX_EVENT_BYTES];
        assert_eq!(state.encode_alloc(&mut out, (0x5555_5555_0020, 24), 1001, 0, false), 16);
        assert_eq!(state.encode_free(&mut out, 0x5555_5555_0020, 1), 8);
    }
}
