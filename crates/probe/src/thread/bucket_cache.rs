//! The buckets a thread used lately, found without a look into the segment.
#![allow(unsafe_code)]

use crate::arch::at_hand;
use crate::buckets::{self, Key};
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
    /// The bucket of `key`; `None` when there is no such bucket.
    pub(crate) fn new(bucket: u32, counts: &'static Counts, key: &Key) -> Option<Kept> {
        let stands_for = match key.rate {
            0 => u32::try_from(key.size).unwrap_or(u32::MAX),
            _ => buckets::record(bucket)?.stands_for,
        };
        Some(Kept { counts, bucket, stands_for })
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
    counts: *const Counts,
    /// All bits of the number flipped: so nothing, which is all zeros, is no bucket there may be.
    flipped: u32,
    stands_for: u32,
}

impl Freed {
    #[inline(always)]
    pub(crate) fn counts(&self) -> &'static Counts {
        // SAFETY: who has one got it from `BucketCache::numbered`, which gives out none but what `put_numbered` put in.
        unsafe { &*self.counts }
    }

    #[inline(always)]
    pub(crate) fn stands_for(&self) -> u64 {
        self.stands_for.into()
    }
}

/// The number that stands for a kind of call in [`Alike::of_call`] and in the stubs: above any node, and never 0.
pub(crate) const fn call_number(kind: u32) -> u64 {
    ((kind as u64) << CALL_SHIFT) | A_CALL
}

/// The kind of call that a number stands for.
#[inline(always)]
pub(crate) fn kind_of_call(call: u64) -> u32 {
    ((call & !A_CALL) >> CALL_SHIFT) as u32
}

const CALL_SHIFT: u32 = 32;
/// So that nothing, which is all zeros, is alike to no block.
const A_CALL: u64 = 1 << 63;
/// Numbers of rates are far below 2^15.
const RATE_SHIFT: u32 = 48;

/// What blocks of a bucket have in common, beside their period and thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alike {
    size: u64,
    /// Stack, call and rate.
    others: u64,
}

impl Alike {
    const NONE: Alike = Alike { size: 0, others: 0 };

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

/// An entry of the cache. Zeroed memory is valid: nothing.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    alike: Alike,
    counts: *const Counts,
    pub(crate) bucket: u32,
    stands_for: u32,
}

impl Known {
    #[inline(always)]
    pub(crate) fn counts(&self) -> &'static Counts {
        // SAFETY: who has one got it from `BucketCache::alike`, which gives out none but what `put_alike` put in.
        unsafe { &*self.counts }
    }

    #[inline(always)]
    pub(crate) fn kept(&self) -> Kept {
        Kept { counts: self.counts(), bucket: self.bucket, stands_for: self.stands_for }
    }
}

/// Zeroed memory is valid: nothing.
pub(super) struct BucketCache {
    alike: [Known; 1 << ALIKE_BITS],
    numbered: [Freed; 1 << NUMBER_BITS],
}

impl BucketCache {
    /// The bucket of blocks that have this in common.
    #[inline(always)]
    pub(super) fn alike(&self, alike: Alike) -> Option<&Known> {
        let known = at_hand(self.alike.get(alike.slot())?);
        (known.alike == alike).then_some(known)
    }

    pub(super) fn put_alike(&mut self, alike: Alike, kept: Kept) {
        if let Some(entry) = self.alike.get_mut(alike.slot()) {
            let Kept { counts, bucket, stands_for } = kept;
            *entry = Known { alike, counts, bucket, stands_for };
        }
    }

    /// The bucket of this number.
    #[inline(always)]
    pub(super) fn numbered(&self, bucket: u32) -> Option<&Freed> {
        let freed = at_hand(self.numbered.get(number_slot(bucket))?);
        (freed.flipped == !bucket).then_some(freed)
    }

    pub(super) fn put_numbered(&mut self, bucket: u32, counts: &'static Counts, stands_for: u32) {
        if stands_for != u32::MAX
            && let Some(entry) = self.numbered.get_mut(number_slot(bucket))
        {
            *entry = Freed { counts, flipped: !bucket, stands_for };
        }
    }

    pub(super) fn clear(&mut self) {
        self.alike.iter_mut().for_each(|known| known.alike = Alike::NONE);
        self.numbered.iter_mut().for_each(|freed| freed.flipped = 0);
    }
}

#[inline(always)]
fn number_slot(bucket: u32) -> usize {
    bucket as usize & ((1 << NUMBER_BITS) - 1)
}
