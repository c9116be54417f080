//! Buckets of version 3: a stack, a size and a thread.

use crate::varint;

/// Blocks with equal properties. Numbers start at 1 in order of first use; 0 is unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteBucket {
    /// Stack tree node.
    pub node: u32,
    /// Requested bytes.
    pub size: u64,
    /// Record of the allocating thread, or [`crate::segment::NO_THREAD`].
    pub thread: u16,
}

impl SiteBucket {
    /// Reads the one at `*at` and moves `*at` behind it.
    pub fn decode(bytes: &[u8], at: &mut usize) -> Option<Self> {
        let node = u32::try_from(varint::decode(bytes, at)?).ok()?;
        let size = varint::decode(bytes, at)?;
        Some(Self { node, size, thread: u16::try_from(varint::decode(bytes, at)?).ok()? })
    }
}

/// Sums over the events of a bucket, in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketCount {
    /// Number of the bucket.
    pub bucket: u32,
    /// Blocks allocated.
    pub allocs: u64,
    /// Blocks freed.
    pub frees: u64,
}

impl BucketCount {
    /// Reads the one at `*at` and moves `*at` behind it. Rows ascend; `previous` is the bucket of
    /// the row before (0 for the first).
    pub fn decode(previous: u32, bytes: &[u8], at: &mut usize) -> Option<Self> {
        let delta = u32::try_from(varint::decode(bytes, at)?).ok()?;
        let bucket = previous.checked_add(delta)?;
        Some(Self { bucket, allocs: varint::decode(bytes, at)?, frees: varint::decode(bytes, at)? })
    }
}
