//! Events as the probe writes them into chunks: which block came or went, on which thread, when.
//!
//! ```text
//! control byte   kind:2 | explicit order:1 | unaligned:1 | address width:2 | size width:2
//! allocations    a second byte: node width:2 | from realloc:1
//! frees          size width 1: the free did not happen after all
//! then           order (4 bytes, if explicit), address, size, node   (little-endian, 1/2/4/8 bytes)
//! ```
//!
//! Widths are 1 << code bytes. Addresses and nodes are zigzag differences from the thread's last one,
//! addresses in units of 16 bytes unless `unaligned`. Fixed widths rather than varints: both ends
//! copy words and add lengths, without a loop per field.
//!
//! **Order.** Only events of one address need a total order, and clocks do not give one. Addresses
//! are spread over [`SHARDS`] counters; an allocation takes its number after the real allocator
//! returned, a free before the real free runs, so the numbers of one address are in true order on any
//! machine. What is written is the distance from the thread's last number of that shard, and
//! nothing at all while no other thread uses the shard.
//!
//! **State** starts at zero in every chunk ([`EventState::default`]), so each chunk decodes on its own.

use crate::varint::{unzigzag, zigzag};

/// Number of order counters.
pub const SHARDS: usize = 256;
/// Longest encoding of one event: what must be free before one is written.
pub const MAX_EVENT_BYTES: usize = 32;

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

const KIND_ALLOC: u8 = 0;
const KIND_FREE: u8 = 1;
const KIND_TICK: u8 = 2;
const KIND_GAP: u8 = 3;
const EXPLICIT_ORDER: u8 = 1 << 2;
const UNALIGNED: u8 = 1 << 3;
const REALLOC: u8 = 1 << 2;
const KEPT: u8 = 1 << 6;

/// What both ends remember from event to event within a chunk.
#[derive(Debug, Clone)]
pub struct EventState {
    last_address: u64,
    last_node: u32,
    orders: [u32; SHARDS],
}

impl Default for EventState {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the next field goes. Positions are masked rather than checked: [`MAX_EVENT_BYTES`] is
/// above the sum of all fields.
struct Writer<'a> {
    out: &'a mut [u8; MAX_EVENT_BYTES],
    at: usize,
}

impl Writer<'_> {
    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        if let Some(target) = self.out.get_mut(self.at) {
            *target = byte;
        }
        self.at += 1;
    }

    /// Writes all eight bytes and keeps `1 << code` of them.
    #[inline(always)]
    fn word(&mut self, value: u64, code: u8) {
        if let Some(target) = self.out.get_mut(self.at..self.at + 8) {
            target.copy_from_slice(&value.to_le_bytes());
        }
        self.at += 1 << code;
    }
}

/// The width code of a value: 0, 1, 2, 3 for 1, 2, 4, 8 bytes.
#[inline(always)]
fn width(value: u64) -> u8 {
    u8::from(value > 0xff) + u8::from(value > 0xffff) + u8::from(value > 0xffff_ffff)
}

impl EventState {
    /// The state at the start of a chunk.
    #[must_use]
    pub const fn new() -> Self {
        Self { last_address: 0, last_node: 0, orders: [0; SHARDS] }
    }

    /// The distance to `order` from the last one of the shard, and the bit that announces it.
    #[inline(always)]
    fn order_delta(&mut self, address: u64, order: u32) -> (u32, u8) {
        let last = &mut self.orders[shard(address)];
        let delta = order.wrapping_sub(*last);
        *last = order.wrapping_add(1);
        (delta, if delta == 0 { 0 } else { EXPLICIT_ORDER })
    }

    #[inline(always)]
    fn address_delta(&mut self, address: u64) -> (u64, u8) {
        let delta = address.wrapping_sub(self.last_address) as i64;
        self.last_address = address;
        // Differences of aligned addresses are aligned.
        if delta & 15 == 0 { (zigzag(delta >> 4), 0) } else { (zigzag(delta), UNALIGNED) }
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
        let (order, explicit) = self.order_delta(address, order);
        let (address, unaligned) = self.address_delta(address);
        let node_delta = zigzag(i64::from(node.wrapping_sub(self.last_node) as i32)) & 0xffff_ffff;
        self.last_node = node;
        let (address_width, size_width, node_width) = (width(address), width(size), width(node_delta));
        let mut writer = Writer { out, at: 0 };
        writer.byte(KIND_ALLOC | explicit | unaligned | address_width << 4 | size_width << 6);
        writer.byte(node_width | if realloc { REALLOC } else { 0 });
        if explicit != 0 {
            writer.word(u64::from(order), 2);
        }
        writer.word(address, address_width);
        writer.word(size, size_width);
        writer.word(node_delta, node_width);
        writer.at
    }

    /// Appends a free to `out`; returns its length.
    #[inline(always)]
    pub fn encode_free(&mut self, out: &mut [u8; MAX_EVENT_BYTES], address: u64, order: u32) -> usize {
        self.encode_address(out, KIND_FREE, address, order)
    }

    /// Appends a free that did not happen to `out`; returns its length.
    pub fn encode_kept(&mut self, out: &mut [u8; MAX_EVENT_BYTES], address: u64, order: u32) -> usize {
        self.encode_address(out, KIND_FREE | KEPT, address, order)
    }

    #[inline(always)]
    fn encode_address(
        &mut self,
        out: &mut [u8; MAX_EVENT_BYTES],
        kind: u8,
        address: u64,
        order: u32,
    ) -> usize {
        let (order, explicit) = self.order_delta(address, order);
        let (address, unaligned) = self.address_delta(address);
        let address_width = width(address);
        let mut writer = Writer { out, at: 0 };
        writer.byte(kind | explicit | unaligned | address_width << 4);
        if explicit != 0 {
            writer.word(u64::from(order), 2);
        }
        writer.word(address, address_width);
        writer.at
    }

    /// Appends a tick to `out`; returns its length.
    pub fn encode_tick(out: &mut [u8; MAX_EVENT_BYTES], milliseconds: u64) -> usize {
        encode_number(out, KIND_TICK, milliseconds)
    }

    /// Appends a gap to `out`; returns its length.
    pub fn encode_gap(out: &mut [u8; MAX_EVENT_BYTES], events: u64) -> usize {
        encode_number(out, KIND_GAP, events)
    }
}

fn encode_number(out: &mut [u8; MAX_EVENT_BYTES], kind: u8, value: u64) -> usize {
    let code = width(value);
    let mut writer = Writer { out, at: 0 };
    writer.byte(kind | code << 4);
    writer.word(value, code);
    writer.at
}

/// Reads the fields of one event.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline(always)]
    fn word(&mut self, code: u8) -> Option<u64> {
        let len = 1usize << code;
        let value = match self.bytes.get(self.at..self.at + 8) {
            Some(word) => {
                let word = u64::from_le_bytes(word.try_into().ok()?);
                word & (u64::MAX >> (64 - 8 * len as u32))
            }
            None => {
                let tail = self.bytes.get(self.at..self.at + len)?;
                tail.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
            }
        };
        self.at += len;
        Some(value)
    }
}

impl EventState {
    /// Decodes the event at `*at` and moves `*at` behind it; `None` when the bytes end first, with
    /// `*at` and the state as they were.
    #[inline(always)]
    pub fn decode(&mut self, bytes: &[u8], at: &mut usize) -> Option<Event> {
        let mut reader = Reader { bytes, at: *at };
        let control = reader.byte()?;
        let event = match control & 3 {
            KIND_ALLOC => self.decode_alloc(&mut reader, control)?,
            KIND_FREE => {
                let order = if control & EXPLICIT_ORDER != 0 { reader.word(2)? as u32 } else { 0 };
                let address = reader.word(control >> 4 & 3)?;
                let address = self.address(address, control);
                let order = self.order(address, order);
                match control & KEPT {
                    0 => Event::Free { address, order },
                    _ => Event::Kept { address, order },
                }
            }
            KIND_TICK => Event::Tick(reader.word(control >> 4 & 3)?),
            _ => Event::Gap(reader.word(control >> 4 & 3)?),
        };
        *at = reader.at;
        Some(event)
    }

    #[inline(always)]
    fn decode_alloc(&mut self, reader: &mut Reader<'_>, control: u8) -> Option<Event> {
        let second = reader.byte()?;
        let order = if control & EXPLICIT_ORDER != 0 { reader.word(2)? as u32 } else { 0 };
        let address = reader.word(control >> 4 & 3)?;
        let size = reader.word(control >> 6)?;
        let node = reader.word(second & 3)?;
        let address = self.address(address, control);
        self.last_node = self.last_node.wrapping_add(unzigzag(node) as u32);
        let order = self.order(address, order);
        Some(Event::Alloc { address, size, node: self.last_node, order, realloc: second & REALLOC != 0 })
    }

    #[inline(always)]
    fn address(&mut self, delta: u64, control: u8) -> u64 {
        let delta = unzigzag(delta);
        let delta = if control & UNALIGNED == 0 { delta << 4 } else { delta };
        self.last_address = self.last_address.wrapping_add(delta as u64);
        self.last_address
    }

    #[inline(always)]
    fn order(&mut self, address: u64, delta: u32) -> u32 {
        let last = &mut self.orders[shard(address)];
        let order = last.wrapping_add(delta);
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
            *order = order.wrapping_add(1 + (skip % 3) as u32 * 1000);
            *order
        };
        (0..count)
            .map(|row| {
                let r = next(&mut seed);
                let far = if r & 64 == 0 { 0x5555_0000_0000 } else { 0x7fff_1234_0000 };
                let address = far + (r >> 40) * if r & 3 == 0 { 1 } else { 16 };
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
    fn common_events_are_short() {
        let mut state = EventState::default();
        let mut out = [0; MAX_EVENT_BYTES];
        state.encode_alloc(&mut out, (0x5555_5555_0000, 24), 1000, 0, false);
        assert_eq!(state.encode_alloc(&mut out, (0x5555_5555_0020, 24), 1001, 1, false), 5);
        assert_eq!(state.encode_free(&mut out, 0x5555_5555_0000, 2), 2);
    }
}
