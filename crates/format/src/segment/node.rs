//! A node of the stack tree, as a segment and as a recording have it.

use crate::bytes::{u32_at, u64_at};

/// A stack: a place, called from `parent`.
///
/// In a segment its first word is [`Node::key`] and its last half word is `parent`. Between them is
/// what finds children and tallies, which is the probe's own. In a recording it is these three
/// fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// See [`NodePlace`] for what it encodes.
    pub place: u64,
    /// The caller's node; always smaller than this node's own number, 0 at the outermost frame.
    pub parent: u32,
    /// Record number of the module plus 1; 0 when unknown, and for a declared frame. At most 4095.
    pub module: u32,
}

/// Meaning of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePlace {
    /// A return address (strip nothing; subtract 1 to look it up).
    Return(u64),
    /// An interrupted instruction: the frame below is a signal handler.
    Interrupted(u64),
    /// A frame the program declared: a string, and a line (0: none).
    Declared {
        /// Byte offset in the strings section.
        string: u32,
        /// Source line.
        line: u32,
    },
}

impl NodePlace {
    const DECLARED: u64 = 1 << 63;
    const INTERRUPTED: u64 = 1 << 62;
    const LINE_MASK: u32 = (1 << 30) - 1;

    /// The word stored in a node.
    #[must_use]
    pub fn encode(self) -> u64 {
        match self {
            NodePlace::Return(address) => address & !(Self::DECLARED | Self::INTERRUPTED),
            NodePlace::Interrupted(address) => (address & !Self::DECLARED) | Self::INTERRUPTED,
            NodePlace::Declared { string, line } => {
                Self::DECLARED | u64::from(line & Self::LINE_MASK) << 32 | u64::from(string)
            }
        }
    }

    /// The meaning of a node's word.
    #[must_use]
    pub fn decode(word: u64) -> Self {
        if word & Self::DECLARED != 0 {
            let line = (word >> 32) as u32 & Self::LINE_MASK;
            NodePlace::Declared { string: word as u32, line }
        } else if word & Self::INTERRUPTED != 0 {
            NodePlace::Interrupted(word & !Self::INTERRUPTED)
        } else {
            NodePlace::Return(word)
        }
    }
}

impl Node {
    /// Bytes of a record of a segment.
    pub const BYTES: usize = 24;
    /// Bytes of a record of a recording.
    pub const RECORDED_BYTES: usize = 16;
    /// The caller's node, in a record of a segment.
    pub const AT_PARENT: usize = 20;
    /// Addresses of user space are below this bit.
    const MODULE_SHIFT: u32 = 48;
    const MODULE_MASK: u64 = 0xfff << Self::MODULE_SHIFT;

    /// Place and module in one word: those of different frames differ.
    #[inline(always)]
    #[must_use]
    pub fn key(place: u64, module: u32) -> u64 {
        if place & NodePlace::DECLARED != 0 {
            return place;
        }
        place & !Self::MODULE_MASK | u64::from(module) << Self::MODULE_SHIFT & Self::MODULE_MASK
    }

    /// The node with this [`Node::key`].
    #[must_use]
    pub fn from_key(key: u64, parent: u32) -> Self {
        if key & NodePlace::DECLARED != 0 {
            return Self { place: key, parent, module: 0 };
        }
        let module = ((key & Self::MODULE_MASK) >> Self::MODULE_SHIFT) as u32;
        Self { place: key & !Self::MODULE_MASK, parent, module }
    }

    /// Decodes a record of a segment.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self::from_key(u64_at(bytes, 0)?, u32_at(bytes, Self::AT_PARENT)?))
    }

    /// The record of a segment, without children and tallies.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, [Self::key(self.place, self.module), 0, u64::from(self.parent) << 32]);
        bytes
    }

    /// Decodes a record of a recording.
    #[must_use]
    pub fn decode_recorded(bytes: &[u8]) -> Option<Self> {
        Some(Self { place: u64_at(bytes, 0)?, parent: u32_at(bytes, 8)?, module: u32_at(bytes, 12)? })
    }

    /// The record of a recording.
    #[must_use]
    pub fn encode_recorded(self) -> [u8; Self::RECORDED_BYTES] {
        let mut bytes = [0; Self::RECORDED_BYTES];
        put(&mut bytes, [self.place, u64::from(self.parent) | u64::from(self.module) << 32]);
        bytes
    }
}

fn put<const N: usize>(bytes: &mut [u8], words: [u64; N]) {
    bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip() {
        for place in [
            NodePlace::Return(0x7fff_1234_5678),
            NodePlace::Interrupted(0x55),
            NodePlace::Declared { string: 77, line: 1234 },
        ] {
            assert_eq!(NodePlace::decode(place.encode()), place);
        }
    }

    #[test]
    fn nodes_round_trip() {
        let addresses = [NodePlace::Return(0x7fff_1234_5678), NodePlace::Interrupted(0x55)];
        let declared = NodePlace::Declared { string: u32::MAX, line: (1 << 30) - 1 };
        let places = addresses.map(|place| (place, 4095)).into_iter().chain([(declared, 0)]);
        for (place, module) in places {
            let node = Node { place: place.encode(), parent: 0xff_fffe, module };
            assert_eq!(Node::decode(&node.encode()), Some(node));
            assert_eq!(Node::decode_recorded(&node.encode_recorded()), Some(node));
        }
    }

    #[test]
    fn short_records_are_refused() {
        for len in 0..Node::BYTES {
            assert_eq!(Node::decode(&[0; Node::BYTES][..len]), None);
        }
    }
}
