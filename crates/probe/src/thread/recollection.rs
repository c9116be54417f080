//! The buckets that a thread wrote down lately, found without a look at the table.

use crate::buckets;
use crate::recorder::Block;

/// Entries, as a power of two: 64 KiB a thread.
const BITS: u32 = 12;

/// Zeroed memory is valid: nothing, for no block is in bucket 0.
pub(super) struct Recollection {
    entries: [Entry; 1 << BITS],
}

#[derive(Clone, Copy)]
struct Entry {
    size: u64,
    /// Stack and kind of call.
    from: u32,
    bucket: u32,
}

/// Where the kind begins, above the number of the stack: a segment has `1 << 22` of them at most.
const KIND_SHIFT: u32 = 28;

impl Recollection {
    #[inline(always)]
    fn slot(size: u64, from: u32) -> usize {
        let mixed = (u64::from(from) ^ size.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - BITS)) as usize
    }

    /// The bucket of blocks of a stack, size and kind of call.
    #[inline(always)]
    pub(super) fn get(&self, size: u64, node: u32, kind: u32) -> Option<u32> {
        let from = node | kind << KIND_SHIFT;
        let entry = self.entries.get(Self::slot(size, from))?;
        (entry.size == size && entry.from == from && entry.bucket != 0).then_some(entry.bucket)
    }

    /// The bucket of a block, looked up and kept; `None` (counted) when the table is full.
    pub(super) fn find(&mut self, block: Block, node: u32) -> Option<u32> {
        let bucket = buckets::find(&block.logged_key(node), || block.usable())?;
        let from = node | block.kind_number() << KIND_SHIFT;
        if let Some(entry) = self.entries.get_mut(Self::slot(block.size, from)) {
            *entry = Entry { size: block.size, from, bucket };
        }
        Some(bucket)
    }
}
