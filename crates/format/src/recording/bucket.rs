//! Where blocks come from: a stack and a size. Entries refer to buckets by number.

use crate::varint;

/// Blocks that are alike. Numbers start at 1 in order of first use; 0 is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SiteBucket {
    /// Stack tree node.
    pub node: u32,
    /// Bytes asked for.
    pub size: u64,
}

impl SiteBucket {
    /// Appends it to a payload.
    pub fn encode(&self, out: &mut impl Extend<u8>) {
        varint::put(out, u64::from(self.node));
        varint::put(out, self.size);
    }

    /// Reads the one at `*at` and moves `*at` behind it.
    pub fn decode(bytes: &[u8], at: &mut usize) -> Option<Self> {
        let node = u32::try_from(varint::decode(bytes, at)?).ok()?;
        Some(Self { node, size: varint::decode(bytes, at)? })
    }
}
