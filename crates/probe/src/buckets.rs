//! Buckets: blocks that are alike (same stack, size, call, rate and period) are counted together.
//!
//! The records are in the segment; what finds them is private: the first buckets of a stack are a list, the
//! others are in a hash. It grows by adding levels of doubling size, never by rehashing: a lookup goes from
//! the largest level down, and threads keep a cache of what they found.
#![allow(unsafe_code)]

mod account;
mod recycling;

use core::mem::offset_of;

use heapwise_format::segment::{Bucket, CallKind, Counter, SectionKind};

pub(crate) use account::{Account, Whose, account, expect, freed_after, open};

use crate::atomics::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::chain::{self, Array, End};
use crate::{process, rates, sampler, segment, stack_tree, sys};

/// What makes blocks alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) size: u64,
    pub(crate) node: u32,
    pub(crate) rate: u16,
    pub(crate) kind: CallKind,
    /// See [`Bucket::owner`].
    pub(crate) owner: u8,
    pub(crate) period: u32,
}

/// Slots of a group: one cache line.
const GROUP: usize = 8;
/// Groups of the first level; each further level has twice as many.
const FIRST_GROUPS: usize = 512;

/// Most levels: room for twice the buckets of the largest segment.
const MOST_LEVELS: usize = 10;

/// Each level is a mapping of its own, null until it is needed. A slot has the upper half of a hash and a
/// bucket number; 0 is free.
static LEVELS: [AtomicPtr<Group>; MOST_LEVELS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MOST_LEVELS];

type Group = [AtomicU64; GROUP];

const fn level_bytes(level: usize) -> usize {
    (FIRST_GROUPS << level) * size_of::<Group>()
}

/// What finds a bucket, and what its owner must know of it to count there: half a line of the cache. Zeroed memory is valid.
struct Links {
    /// Of its key, which is told apart from others by this alone.
    hash: AtomicU64,
    /// Whose tally of it is real, and where the bytes below hold.
    whose: AtomicU64,
    stands_for: AtomicU32,
    /// The next bucket of the stack.
    next: AtomicU32,
    /// Of which a block was freed after one of this bucket.
    next_freed: AtomicU32,
}

static LINKS: Array<Links> = Array::none();
/// Some bucket was used a second time: such ones are in the hash only.
static RECYCLED: AtomicBool = AtomicBool::new(false);

/// Starts with an empty table (again after `fork`); false without memory.
pub(crate) fn init() -> bool {
    for (level, slots) in LEVELS.iter().enumerate() {
        let old = slots.swap(core::ptr::null_mut(), Ordering::Relaxed);
        if !old.is_null() {
            // SAFETY: only a forked child begins anew, and it has a single thread.
            unsafe { sys::unmap(old.cast(), level_bytes(level)) };
        }
    }
    LINKS.renew(segment::section(SectionKind::Buckets).capacity);
    RECYCLED.store(false, Ordering::Relaxed);
    // Bucket 0 is nobody's.
    segment::counter(Counter::Buckets).store(1, Ordering::Relaxed);
    add_level(0)
}

/// Every block will be recorded.
pub(crate) fn expect_many() {
    LINKS.expect_many();
}

/// Maps a level; true when it is there afterwards.
fn add_level(level: usize) -> bool {
    let Some(slots) = LEVELS.get(level) else { return false };
    let Ok(memory) = sys::map_private(level_bytes(level)) else { return false };
    let publish =
        slots.compare_exchange(core::ptr::null_mut(), memory.cast(), Ordering::AcqRel, Ordering::Relaxed);
    if publish.is_err() {
        // SAFETY: another thread was faster; ours was never seen.
        unsafe { sys::unmap(memory, level_bytes(level)) };
    }
    true
}

/// The key's group in each level that is there, largest first.
fn groups(hash: u64) -> impl Iterator<Item = &'static Group> {
    LEVELS.iter().enumerate().rev().filter_map(move |(level, slots)| {
        let slots = slots.load(Ordering::Acquire);
        let index = hash as usize & ((FIRST_GROUPS << level) - 1);
        // SAFETY: a published level has that many groups and stays mapped while threads run.
        (!slots.is_null()).then(|| unsafe { &*slots.add(index) })
    })
}

/// Each step can be undone, so keys that differ in one thing never have the same.
#[inline(always)]
fn hash(key: &Key) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64| {
        let product = hash.wrapping_mul(K);
        product ^ product >> 32
    };
    mix(mix(mix(key.size) ^ key.alike()) ^ u64::from(key.period))
}

impl Key {
    /// Stack, rate, call and owner, as they are in the record.
    #[inline(always)]
    fn alike(&self) -> u64 {
        u64::from(self.node)
            | u64::from(self.rate) << 32
            | (self.kind as u64) << 48
            | u64::from(self.owner) << 56
    }
}

/// The bucket of `key`, made when there is none; `None` (counted) when the table is full. `usable` tells how many bytes
/// the allocator gave to the first block.
#[inline(always)]
pub(crate) fn find(key: &Key, usable: impl FnOnce() -> u64) -> Option<u32> {
    let hash = hash(key);
    let found = match search(key, hash) {
        Some(End::Found(bucket)) => Some(bucket),
        Some(End::Open(end)) if !RECYCLED.load(Ordering::Acquire) => made(key, hash, Some(end), usable()),
        _ => match groups(hash).find_map(|group| find_in(group, hash, key)) {
            Some(bucket) => Some(bucket),
            None => made(key, hash, None, usable()),
        },
    };
    if found.is_none() {
        segment::count(Counter::LostBuckets);
    }
    found
}

/// Looks among the first buckets of the key's stack.
#[inline(always)]
fn search(key: &Key, hash: u64) -> Option<End> {
    let is_it = |bucket| LINKS.get(bucket).is_some_and(|links| links.hash.load(Ordering::Relaxed) == hash);
    Some(chain::search(stack_tree::first_bucket(key.node)?, |bucket| Some(&LINKS.get(bucket)?.next), is_it))
}

fn find_in(group: &Group, hash: u64, key: &Key) -> Option<u32> {
    group.iter().find_map(|slot| {
        let word = slot.load(Ordering::Acquire);
        (word != 0 && word >> 32 == hash >> 32 && holds(word as u32, key)).then_some(word as u32)
    })
}

/// Compared as words: this is half of what a lookup does.
fn holds(bucket: u32, key: &Key) -> bool {
    let Some([size, alike, period, _]) = segment::read::<[u64; 4]>(SectionKind::Buckets, bucket.into())
    else {
        return false;
    };
    size == key.size && alike == key.alike() && period as u32 == key.period
}

const _: () = {
    assert!(cfg!(target_endian = "little") && size_of::<Bucket>() == size_of::<[u64; 4]>());
    assert!(offset_of!(Bucket, size) == 0 && offset_of!(Bucket, node) == 8 && offset_of!(Bucket, rate) == 12);
    assert!(
        offset_of!(Bucket, kind) == 14 && offset_of!(Bucket, owner) == 15 && offset_of!(Bucket, period) == 16
    );
};

/// The record of a bucket; `None` when there is no such bucket.
#[inline(always)]
pub(crate) fn record(bucket: u32) -> Option<Bucket> {
    segment::read(SectionKind::Buckets, u64::from(bucket))
}

/// Makes a bucket and puts it at the end of its stack's list, or into the hash. Two threads may make the same
/// bucket at once: readers add them up.
fn made(key: &Key, hash: u64, end: Option<&'static AtomicU32>, usable: u64) -> Option<u32> {
    let capacity = segment::section(SectionKind::Buckets).capacity;
    let claim = |used: u64| (used < capacity).then_some(used + 1);
    let used = segment::counter(Counter::Buckets);
    let (bucket, end) = match used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim) {
        Ok(bucket) => (bucket as u32, end),
        Err(_) => (recycled()?, None),
    };
    let record = Bucket {
        size: key.size,
        node: key.node,
        rate: key.rate,
        kind: key.kind as u8,
        owner: key.owner,
        period: key.period,
        waste: u32::try_from(usable.saturating_sub(key.size)).unwrap_or(u32::MAX),
        born_ms: process::age_ms(),
        stands_for: u32::try_from(weight(key.size, key.rate)).unwrap_or(u32::MAX),
    };
    if !segment::write(SectionKind::Buckets, u64::from(bucket), record) {
        return None;
    }
    if !end.is_some_and(|end| put_in_list(end, bucket, hash)) {
        put_in_hash(bucket, hash);
    }
    Some(bucket)
}

/// A bucket that is used a second time. It may still be part of a list, where it is passed over: nothing has its hash.
fn recycled() -> Option<u32> {
    let bucket = recycling::take()?;
    RECYCLED.store(true, Ordering::Release);
    Some(bucket)
}

fn put_in_list(end: &AtomicU32, bucket: u32, hash: u64) -> bool {
    let Some(links) = LINKS.get(bucket) else { return false };
    links.hash.store(hash, Ordering::Relaxed);
    chain::append(end, bucket)
}

/// Adds a level when every other is full for this hash. Beyond the last the bucket serves one block only.
fn put_in_hash(bucket: u32, hash: u64) {
    let word = hash >> 32 << 32 | u64::from(bucket);
    let put = || {
        groups(hash)
            .flatten()
            .any(|slot| slot.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    };
    if !put() {
        let used = LEVELS.iter().take_while(|slots| !slots.load(Ordering::Acquire).is_null()).count();
        let _ = add_level(used) && put();
    }
}

/// Takes a bucket out of the hash, if it is there; readers pass over it because it belongs to no period.
fn retire(bucket: u32, record: &Bucket) {
    if let Some(links) = LINKS.get(bucket) {
        links.hash.store(0, Ordering::Relaxed);
        links.whose.store(0, Ordering::Relaxed);
    }
    segment::write(SectionKind::Buckets, u64::from(bucket), Bucket { period: 0, ..*record });
    let key = Key {
        size: record.size,
        node: record.node,
        rate: record.rate,
        kind: CallKind::from_number(record.kind.into()),
        owner: record.owner,
        period: record.period,
    };
    let hash = hash(&key);
    let word = hash >> 32 << 32 | u64::from(bucket);
    let _ = groups(hash)
        .flatten()
        .any(|slot| slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok());
}

fn weight(size: u64, rate: u16) -> u64 {
    if rate == 0 { size } else { sampler::weighted_bytes(size, rates::of(rate)) }
}

/// Bytes that each block of the bucket stands for.
#[inline(always)]
pub(crate) fn stands_for(bucket: &Bucket) -> u64 {
    match bucket.stands_for {
        u32::MAX => weight(bucket.size, bucket.rate),
        bytes => u64::from(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn key(size: u64) -> Key {
        Key { size, node: 3, rate: 0, kind: CallKind::Malloc, owner: 0, period: 1 }
    }

    #[test]
    fn alike_is_the_same_bucket_and_everything_counts() {
        segment::for_tests();
        let find = |key: &Key| find(key, || 24);
        let bucket = find(&key(24));
        assert!(bucket.is_some() && find(&key(24)) == bucket);
        let others = [
            Key { size: 25, ..key(24) },
            Key { node: 4, ..key(24) },
            Key { kind: CallKind::New, ..key(24) },
            Key { owner: 1, ..key(24) },
            Key { period: 2, ..key(24) },
        ];
        for other in others {
            assert!(find(&other).is_some_and(|other| Some(other) != bucket), "{other:?}");
        }
    }

    #[test]
    fn keys_have_hashes_of_their_own() {
        let keys = [
            key(24),
            // What would be the same if size and stack were laid upon each other.
            Key { size: 24 | 1 << 32, node: 2, ..key(24) },
            Key { period: 2, ..key(24) },
            Key { owner: 1, ..key(24) },
            Key { kind: CallKind::New, ..key(24) },
            Key { rate: 1, ..key(24) },
        ];
        let mut hashes = keys.map(|key| hash(&key));
        hashes.sort_unstable();
        assert!(hashes.is_sorted_by(|a, b| a < b), "{hashes:x?}");
    }

    #[test]
    fn the_table_grows_by_levels() {
        segment::for_tests();
        let find = |key: &Key| find(key, || 0);
        let made: Vec<_> = (1 << 20..(1 << 20) + 50_000).map(|size| find(&key(size))).collect();
        let found = (1 << 20..).map(|size| find(&key(size)));
        assert!(made.iter().all(Option::is_some) && made.iter().copied().eq(found.take(made.len())));
    }
}
