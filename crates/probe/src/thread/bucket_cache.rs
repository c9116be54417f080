//! The buckets a thread used lately, found without a look into the segment.
#![cfg_attr(test, allow(unsafe_code))]

use crate::arch::at_hand;
use crate::buckets::{self, Account};
use crate::tallies::Counts;

/// Entries by what blocks have in common, as a power of two: 64 KiB a thread.
const ALIKE_BITS: u32 = 11;
/// Entries by number, as a power of two: 16 KiB a thread.
const NUMBER_BITS: u32 = 10;

/// A bucket and this thread's tally of it.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) counts: &'static Counts,
    pub(crate) bucket: u32,
    /// Bytes that a block of it stands for; [`u32::MAX`] for more.
    stands_for: u32,
}

impl Kept {
    pub(crate) fn new(bucket: u32, account: Account) -> Kept {
        Kept { counts: account.counts, bucket, stands_for: account.stands_for }
    }

    /// Bytes that a block of the bucket stands for.
    #[inline(always)]
    pub(crate) fn stands_for(&self) -> u64 {
        match self.stands_for {
            u32::MAX => buckets::record(self.bucket).map_or(0, |bucket| buckets::stands_for(&bucket)),
            bytes => bytes.into(),
        }
    }
}

/// A bucket that blocks were freed of, none of which stands for 4 GiB, and this thread's tally of it.
#[derive(Clone, Copy)]
pub(crate) struct Freed {
    pub(crate) counts: &'static Counts,
    bucket: u32,
    stands_for: u32,
}

impl Freed {
    #[inline(always)]
    pub(crate) fn stands_for(&self) -> u64 {
        self.stands_for.into()
    }
}

/// The number that stands for a kind of call in [`Alike::of_call`] and in the stubs: above any node.
pub(crate) const fn call_number(kind: u32) -> u64 {
    (kind as u64) << CALL_SHIFT
}

/// The kind of call that a number stands for.
#[inline(always)]
pub(crate) fn kind_of_call(call: u64) -> u32 {
    (call >> CALL_SHIFT) as u32
}

const CALL_SHIFT: u32 = 32;
const RATE_SHIFT: u32 = 48;

/// What blocks of a bucket have in common, beside their period and thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alike {
    size: u64,
    /// Stack, call and rate.
    others: u64,
}

impl Alike {
    #[inline(always)]
    pub(crate) fn new(size: u64, node: u32, kind: u16, rate: u16) -> Alike {
        Alike::of_call(size, node, call_number(kind.into()) | u64::from(rate) << RATE_SHIFT)
    }

    /// Blocks of a call as the stubs have it, all of which are recorded.
    #[inline(always)]
    pub(crate) fn of_call(size: u64, node: u32, call: u64) -> Alike {
        Alike { size, others: u64::from(node) | call }
    }

    #[inline(always)]
    fn slot(self) -> usize {
        // Blocks of one place mostly differ little in size: such ones are side by side.
        let mixed = (self.others as u32).wrapping_mul(0x9e37_79b9) >> (32 - ALIKE_BITS);
        (mixed.wrapping_add(self.size as u32) & ((1 << ALIKE_BITS) - 1)) as usize
    }
}

/// Zeroed memory is valid: nothing.
pub(super) struct BucketCache {
    alike: [(Alike, Option<Kept>); 1 << ALIKE_BITS],
    numbered: [Option<Freed>; 1 << NUMBER_BITS],
}

impl BucketCache {
    /// The bucket of blocks that have this in common.
    #[inline(always)]
    pub(super) fn alike(&self, alike: Alike) -> Option<Kept> {
        let (found, kept) = self.alike.get(alike.slot())?;
        if *found == alike { *kept } else { None }
    }

    pub(super) fn put_alike(&mut self, alike: Alike, kept: Kept) {
        if let Some(entry) = self.alike.get_mut(alike.slot()) {
            *entry = (alike, Some(kept));
        }
    }

    /// The bucket of this number.
    #[inline(always)]
    pub(super) fn numbered(&self, bucket: u32) -> Option<&Freed> {
        at_hand(self.numbered.get(number_slot(bucket))?).as_ref().filter(|freed| freed.bucket == bucket)
    }

    pub(super) fn put_numbered(&mut self, bucket: u32, counts: &'static Counts, stands_for: u32) {
        if stands_for != u32::MAX
            && let Some(entry) = self.numbered.get_mut(number_slot(bucket))
        {
            *entry = Some(Freed { counts, bucket, stands_for });
        }
    }

    pub(super) fn clear(&mut self) {
        self.alike.iter_mut().for_each(|(_, kept)| *kept = None);
        self.numbered.fill(None);
    }
}

#[inline(always)]
fn number_slot(bucket: u32) -> usize {
    bucket as usize & ((1 << NUMBER_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of buckets come out of the segment, where anybody may have put them.
    #[test]
    fn nothing_is_known_by_any_number() {
        // SAFETY: zeroed memory is valid.
        let cache: Box<BucketCache> = unsafe { Box::new_zeroed().assume_init() };
        for number in [0, 1, 1 << NUMBER_BITS, u32::MAX - 1, u32::MAX] {
            assert!(cache.numbered(number).is_none(), "{number}");
        }
        assert!(cache.alike(Alike::new(0, 0, 0, 0)).is_none());
    }
}
