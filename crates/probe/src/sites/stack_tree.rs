//! The stack tree: every distinct stack is one node, reached from its caller's node.
//!
//! Nodes are records in the segment, appended and never changed, so a node's number is a stable name
//! for a stack in this process. A private hash finds the child of a node; it takes no lock.
#![allow(unsafe_code)]

mod child_table;

use heapwise_format::segment::{Counter, Node, SectionKind};

pub(crate) use child_table::Key;

use crate::atomics::Ordering::{Acquire, Relaxed, Release};
use crate::atomics::{AtomicU32, AtomicU64};
use crate::chain::{self, Array, End};
use crate::{arch, family, segment};

/// The empty stack.
pub(crate) const ROOT: u32 = 0;

/// Next node to hand out.
static NEXT: AtomicU32 = AtomicU32::new(1);
/// Changes with each segment: what was remembered of another segment's nodes is void. Starts at 1:
/// zeroed memory belongs to no epoch.
static EPOCH: AtomicU32 = AtomicU32::new(1);

/// What is known of a node besides its record. Zeroed memory is valid: nothing.
struct Links {
    /// Of its [`Key`].
    hash: AtomicU64,
    /// How it was come to lately; every way that ever stood here leads to it. 0: none.
    way: AtomicU64,
    /// What a thread that had been here came to next.
    next: AtomicU32,
    /// Its first child, and its parent's next one.
    child: AtomicU32,
    sibling: AtomicU32,
    /// Its first bucket.
    bucket: AtomicU32,
}

static LINKS: Array<Links> = Array::none();
/// Nodes whose links fill a page or so.
const NODES_OF_PAGE: u32 = 4096 / size_of::<Links>() as u32;

/// Starts an empty tree in a fresh segment: at start, and in the child of a fork. Memoised stacks are
/// void. No other thread may be unwinding.
pub(crate) fn init() {
    NEXT.store(ROOT + 1, Relaxed);
    child_table::clear();
    LINKS.renew(segment::section(SectionKind::Nodes).capacity);
    EPOCH.fetch_add(1, Relaxed);
    family::change_terms();
    segment::counter(Counter::Nodes).store(u64::from(ROOT) + 1, Release);
}

/// Every stack will be recorded.
pub(crate) fn expect_many() {
    LINKS.expect_many();
}

/// Number of the segment in use.
#[inline(always)]
pub(crate) fn epoch() -> u32 {
    EPOCH.load(Relaxed)
}

/// The node of `place` (an encoded [`heapwise_format::segment::NodePlace`]) called from `parent`;
/// made if it is new. `module` is a record plus 1, 0 when unknown. `None`, counted, when there is no room.
#[must_use]
pub(crate) fn child(parent: u32, place: u64, module: u32) -> Option<u32> {
    child_of(Key::new(parent, place, module))
}

/// As [`child`], for a key whose hash the caller has at hand.
#[inline(always)]
pub(crate) fn child_of(key: Key) -> Option<u32> {
    match search(key) {
        Some(End::Found(node)) => Some(node),
        end => new_child(key, end),
    }
}

/// Looks among the first children.
#[inline(always)]
fn search(key: Key) -> Option<End> {
    let first = &LINKS.get(key.parent)?.child;
    Some(chain::search(first, |node| Some(&LINKS.get(node)?.sibling), |node| has_hash(node, key.hash)))
}

#[inline(always)]
fn has_hash(node: u32, hash: u64) -> bool {
    LINKS.get(node).is_some_and(|links| links.hash.load(Relaxed) == hash)
}

/// The child that is not among the first ones, or the end of those where it belongs.
#[inline(never)]
fn new_child(key: Key, end: Option<End>) -> Option<u32> {
    let node = match end {
        Some(End::Found(node)) => Some(node),
        Some(End::Open(link)) => appended(key, link),
        Some(End::Long) | None => child_table::find_or_insert(key, || append(key)),
    };
    if node.is_none() {
        segment::count(Counter::LostNodes);
    }
    node
}

/// Makes a child at the end of its parent's list. A thread that loses the race for it leaves a node unused:
/// harmless.
fn appended(key: Key, end: &'static AtomicU32) -> Option<u32> {
    let id = append(key)?;
    LINKS.get(id)?.hash.store(key.hash, Relaxed);
    if chain::append(end, id) { Some(id) } else { child_of(key) }
}

/// A way to a node: from another one, through frames that are known by a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way(u64);

impl Way {
    #[inline(always)]
    pub(crate) fn new(from: u32, frames: u64) -> Way {
        let mixed = (frames ^ u64::from(from).wrapping_mul(0xd6e8_feb8_6659_fd93))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Way((mixed ^ mixed >> 32) | 1 << 63)
    }
}

/// The node that a thread came to after it had been at `last`, the last time; 0 when none. Programs do the same things in
/// the same order again: what is known of that node is brought near.
#[inline(always)]
pub(crate) fn next_of(last: u32) -> u32 {
    let next = LINKS.get(last).map_or(ROOT, |links| links.next.load(Acquire));
    if let Some(links) = LINKS.get(next) {
        arch::expect_read(links);
    }
    next
}

/// Whether a way leads to a node. Then nothing else of the tree has to be looked at.
#[inline(always)]
pub(crate) fn is_at_end_of(way: Way, node: u32) -> bool {
    LINKS.get(node).is_some_and(|links| links.way.load(Acquire) == way.0)
}

/// Notes what came after `last`, and how.
pub(crate) fn set_next(last: u32, way: Way, node: u32) {
    if let (Some(before), Some(links)) = (LINKS.get(last), LINKS.get(node)) {
        links.way.store(way.0, Release);
        before.next.store(node, Release);
    }
}

/// Where the list of a node's buckets begins.
pub(crate) fn first_bucket(node: u32) -> Option<&'static AtomicU32> {
    Some(&LINKS.get(node)?.bucket)
}

/// Appends a record. Nothing is at place 0: readers take such a record for one that is not written yet.
fn append(key: Key) -> Option<u32> {
    if key.place == 0 {
        return None;
    }
    let capacity = segment::section(SectionKind::Nodes).capacity;
    let reserve = |next: u32| (u64::from(next) < capacity).then_some(next + 1);
    let id = NEXT.fetch_update(Relaxed, Relaxed, reserve).ok()?;
    let node = Node { place: key.place, parent: key.parent, module: key.module };
    if !segment::append(SectionKind::Nodes, u64::from(id), node) {
        return None;
    }
    segment::counter(Counter::Nodes).fetch_max(u64::from(id) + 1, Release);
    if id.is_multiple_of(NODES_OF_PAGE) {
        segment::counter(Counter::OwnBytes).fetch_add(4096, Relaxed);
    }
    Some(id)
}

/// Reads a node back.
pub(crate) fn node(id: u32) -> Option<Node> {
    if id == ROOT || id >= NEXT.load(Relaxed) {
        return None;
    }
    let record = segment::existing(SectionKind::Nodes, u64::from(id))?;
    // SAFETY: a node has two words.
    let [place, caller] = [0, 8].map(|byte| unsafe { segment::word64(record, byte) }.load(Relaxed));
    Some(Node { place, parent: caller as u32, module: (caller >> 32) as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_next_is_known_by_the_way_to_it() {
        segment::for_tests();
        let [last, next] =
            [0x5555_0100_0010, 0x5555_0100_0020].map(|place| child(ROOT, place, 1).expect("room"));
        let ways = [(last, 1), (last, 2), (next, 1)].map(|(from, frames)| Way::new(from, frames));
        assert!(ways.iter().all(|way| !is_at_end_of(*way, next_of(last))), "nothing came yet");
        set_next(last, ways[0], next);
        assert_eq!(next_of(last), next);
        assert_eq!(ways.map(|way| is_at_end_of(way, next)), [true, false, false]);
        set_next(last, ways[1], next);
        assert_eq!(ways.map(|way| is_at_end_of(way, next)), [false, true, false]);
        assert!(ways.iter().all(|way| !is_at_end_of(*way, ROOT)));
    }
}
