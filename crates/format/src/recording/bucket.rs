//! Where blocks come from: a stack, a size and a thread. Entries refer to buckets by number.

use crate::varint;

/// Blocks that are alike. Numbers start at 1 in order of first use; 0 is nobody's.
///
/// The thread is that of the allocation: a free names its block's bucket, so whoever frees it, it is known who
/// allocated it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SiteBucket {
    /// Stack tree node.
    pub node: u32,
    /// Bytes asked for.
    pub size: u64,
    /// Record of the allocating thread.
    pub thread: u16,
}

impl SiteBucket {
    /// The thread of blocks whose thread has no record: more threads than there is room for.
    pub const NO_THREAD: u16 = u16::MAX;

    /// Appends it to a payload.
    pub fn encode(&self, out: &mut impl Extend<u8>) {
        varint::put(out, u64::from(self.node));
        varint::put(out, self.size);
        varint::put(out, u64::from(self.thread));
    }

    /// Reads the one at `*at` and moves `*at` behind it.
    pub fn decode(bytes: &[u8], at: &mut usize) -> Option<Self> {
        let node = u32::try_from(varint::decode(bytes, at)?).ok()?;
        let size = varint::decode(bytes, at)?;
        Some(Self { node, size, thread: u16::try_from(varint::decode(bytes, at)?).ok()? })
    }
}
