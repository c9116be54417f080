//! What the owner of a bucket must know to count in it, in private memory beside what finds the bucket: neither its record nor
//! its pages have to be asked, and a few lines of the cache are enough for a program with half a million stacks.
#![allow(unsafe_code)]

use super::LINKS;
use crate::arch;
use crate::atomics::Ordering;
use crate::tallies::{Counts, Slab};

/// A thread's slab and the period: those that a bucket is made for. Never 0, which is nobody's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whose(u64);

impl Whose {
    pub(crate) fn new(slab: u32, period: u32) -> Whose {
        Whose(1 << 63 | u64::from(slab) << 32 | u64::from(period))
    }
}

/// Where the owner of a bucket counts, and the bytes that each block stands for; [`u32::MAX`] for more.
#[derive(Clone, Copy)]
pub(crate) struct Account {
    pub(crate) counts: &'static Counts,
    pub(crate) stands_for: u32,
}

/// The account of a bucket, if the owner of the slab asks, and has [opened](open) it.
#[inline(always)]
pub(crate) fn account(bucket: u32, whose: Whose, slab: &Slab) -> Option<Account> {
    let links = LINKS.get(bucket)?;
    if links.whose.load(Ordering::Relaxed) != whose.0 {
        return None;
    }
    // SAFETY: `open` was told that the tally is real, of the slab that is named here too.
    let counts = unsafe { slab.real_counts(bucket) };
    Some(Account { counts, stands_for: links.stands_for.load(Ordering::Relaxed) })
}

/// Opens the account of a bucket for the owner of a slab, whose tally of it is real. Nobody else asks but the next owner of the slab,
/// who takes over all of it.
pub(crate) fn open(bucket: u32, whose: Whose, stands_for: u32) {
    if let Some(links) = LINKS.get(bucket) {
        links.stands_for.store(stands_for, Ordering::Relaxed);
        links.whose.store(whose.0, Ordering::Relaxed);
    }
}

/// Brings near what a thread needs to count in a bucket.
#[inline(always)]
pub(crate) fn expect(bucket: u32, slab: &Slab) {
    if let Some(links) = LINKS.get(bucket) {
        arch::expect_read(links);
        slab.expect_counts(bucket);
    }
}

/// A block of `bucket` is freed after one of `last`; of which bucket one was freed next the last time. Programs free in the same order again,
/// mostly another one than they allocate in.
#[inline(always)]
pub(crate) fn freed_after(last: u32, bucket: u32) -> Option<u32> {
    let before = &LINKS.get(last)?.next_freed;
    if before.load(Ordering::Relaxed) != bucket {
        before.store(bucket, Ordering::Relaxed);
    }
    Some(LINKS.get(bucket)?.next_freed.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::super::tests::key;
    use super::super::{Key, find, record, retire};
    use super::*;
    use crate::segment;

    #[test]
    fn an_account_is_for_its_owner_until_the_bucket_is_used_again() {
        segment::for_tests();
        let (slab, whose) = (Slab::numbered(1), Whose::new(1, 1));
        let key = Key { owner: 1, ..key(77) };
        let bucket = find(&key, || 77).expect("room");
        let stands_for = |whose| account(bucket, whose, &slab).map(|account| account.stands_for);
        let others = [Whose::new(2, 1), Whose::new(1, 2), Whose::new(0, 0)];
        assert_eq!((stands_for(whose), others.map(stands_for)), (None, [None; 3]), "it is not open yet");
        assert!(slab.counts(bucket).is_some());
        open(bucket, whose, 77);
        assert_eq!((stands_for(whose), others.map(stands_for)), (Some(77), [None; 3]));
        retire(bucket, &record(bucket).expect("made"));
        assert_eq!((stands_for(whose), others.map(stands_for)), (None, [None; 3]));
        assert_ne!(find(&key, || 77), Some(bucket));
        assert!(account(u32::MAX, whose, &slab).is_none(), "a number may be anything");
    }

    #[test]
    fn the_order_of_frees_is_learnt() {
        segment::for_tests();
        let [a, b, c] = [901, 902, 903].map(|size| find(&key(size), || 0).expect("room"));
        let frees = [a, b, c, a, b, c];
        let told: Vec<_> = frees.windows(2).map(|pair| freed_after(pair[0], pair[1])).collect();
        assert_eq!(told, [Some(0), Some(0), Some(b), Some(c), Some(a)]);
        assert_eq!(freed_after(u32::MAX, a), None);
    }
}
