//! Where blocks come from: a stack and a thread. Entries refer to sites by number.

use crate::varint;

/// A stack and the thread that allocated. Numbers start at 1 in order of first use; 0 is unused.
///
/// A free names the site of its block, so the allocating thread of a block is known whichever
/// thread frees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Site {
    /// Stack tree node.
    pub node: u32,
    /// Record of the allocating thread, or [`crate::segment::NO_THREAD`].
    pub thread: u16,
}

impl Site {
    /// Appends it to a payload.
    pub fn encode(&self, out: &mut impl Extend<u8>) {
        varint::put(out, u64::from(self.node));
        varint::put(out, u64::from(self.thread));
    }

    /// Reads the one at `*at` and moves `*at` behind it.
    pub fn decode(bytes: &[u8], at: &mut usize) -> Option<Self> {
        let node = u32::try_from(varint::decode(bytes, at)?).ok()?;
        Some(Self { node, thread: u16::try_from(varint::decode(bytes, at)?).ok()? })
    }
}
