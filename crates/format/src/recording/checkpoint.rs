//! Everything up to one instant, summed up per bucket: where a reader may start.

use crate::varint;

/// What had happened to the blocks of a bucket.
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
    /// Appends it to a payload; rows are written in ascending order of buckets, and `previous` is the
    /// bucket of the row before (0 for the first).
    pub fn encode(&self, previous: u32, out: &mut impl Extend<u8>) {
        varint::put(out, u64::from(self.bucket.wrapping_sub(previous)));
        varint::put(out, self.allocs);
        varint::put(out, self.frees);
    }

    /// Reads the one at `*at` and moves `*at` behind it.
    pub fn decode(previous: u32, bytes: &[u8], at: &mut usize) -> Option<Self> {
        let delta = u32::try_from(varint::decode(bytes, at)?).ok()?;
        let bucket = previous.checked_add(delta)?;
        Some(Self { bucket, allocs: varint::decode(bytes, at)?, frees: varint::decode(bytes, at)? })
    }
}
