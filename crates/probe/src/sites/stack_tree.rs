//! The stack tree: every distinct stack is one node, reached from its caller's node.
//!
//! Nodes are records in the segment, appended and never changed, so a node's number is a stable
//! name for a stack in this process. A private hash finds the child of a node; it takes no lock.
#![allow(unsafe_code)]

use heapwise_format::segment::{Counter, Node, NodePlace, SectionKind};

use super::chain::{self, Array, End};
pub(crate) use super::child_table::Key;
use super::{child_table, strings};
use crate::atomics::Ordering::{Relaxed, Release};
use crate::atomics::{AtomicU32, AtomicU64};
use crate::{fork, segment};

/// The empty stack.
pub(crate) const ROOT: u32 = 0;
/// Counts stacks that found no room in the tree.
pub(crate) const OUT_OF_STACKS: u32 = 1;
/// Counts sites that found no room for a tally.
pub(crate) const OUT_OF_SITES: u32 = 2;
/// First node of a stack.
const FIRST: u32 = 3;

/// Next node to hand out.
static NEXT: AtomicU32 = AtomicU32::new(FIRST);
/// Incremented with each segment: cached nodes of another segment are invalid. Starts at 1, so that
/// zeroed memory belongs to no epoch.
static EPOCH: AtomicU32 = AtomicU32::new(1);

/// Data of a node besides its record. Zeroed memory is valid: none.
struct Links {
    /// Of its [`Key`].
    hash: AtomicU64,
    /// The tally of this stack that was made first, and its owner (see `tallies::OwnTally`).
    tally: AtomicU64,
    /// Its first child, and its parent's next one.
    child: AtomicU32,
    sibling: AtomicU32,
    /// First tally of this stack that all threads share.
    shared_tally: AtomicU32,
    /// Range of the sizes in its tallies, see [`widen_sizes`].
    sizes: AtomicU32,
}

static LINKS: Array<Links> = Array::none();
/// Nodes whose links fill a page or so.
const NODES_OF_PAGE: u32 = 4096 / size_of::<Links>() as u32;

/// Starts an empty tree in a fresh segment: at start, and in the child of a fork. Cached stacks are
/// invalid. No other thread may be unwinding. To be called after [`strings::init`].
pub(crate) fn init() {
    NEXT.store(FIRST, Relaxed);
    child_table::clear();
    LINKS.renew(segment::section(SectionKind::Nodes).capacity);
    EPOCH.fetch_add(1, Relaxed);
    fork::change_generation();
    for (node, name) in [(OUT_OF_STACKS, strings::OUT_OF_STACKS), (OUT_OF_SITES, strings::OUT_OF_SITES)] {
        let place = NodePlace::Declared { string: strings::reserved(name), line: 0 }.encode();
        segment::append(SectionKind::Nodes, node.into(), Node { place, parent: ROOT, module: 0 });
    }
    segment::counter(Counter::Nodes).store(u64::from(FIRST), Release);
}

/// Requests large pages: every stack will be recorded.
pub(crate) fn prefer_large_pages() {
    LINKS.prefer_large_pages();
}

/// Number of the segment in use.
#[inline(always)]
pub(crate) fn epoch() -> u32 {
    EPOCH.load(Relaxed)
}

/// The node of `place` (an encoded [`heapwise_format::segment::NodePlace`]) called from `parent`;
/// made if it is new. `module` is a record plus 1, 0 when unknown. `None` when there is no room.
#[must_use]
pub(crate) fn child(parent: u32, place: u64, module: u32) -> Option<u32> {
    child_of(Key::new(parent, place, module))
}

/// As [`child`], for a key whose hash the caller already computed.
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
    match end {
        Some(End::Found(node)) => Some(node),
        Some(End::Open(link)) => appended(key, link),
        Some(End::Long) | None => child_table::find_or_insert(key, || append(key)),
    }
}

/// Makes a child at the end of its parent's list. A thread that loses the race for it leaves a node
/// unused: harmless.
fn appended(key: Key, end: &'static AtomicU32) -> Option<u32> {
    let id = append(key)?;
    LINKS.get(id)?.hash.store(key.hash, Relaxed);
    if chain::append(end, id) { Some(id) } else { child_of(key) }
}

/// Where the tally of a node that was made first is kept.
#[inline(always)]
pub(crate) fn own_tally(node: u32) -> Option<&'static AtomicU64> {
    Some(&LINKS.get(node)?.tally)
}

/// Whether `size` may be outside of the size range of a node's tallies; the range includes it
/// afterwards. Saves most events the access to the record of a tally's sizes, which is another
/// cache miss.
#[inline(always)]
pub(crate) fn widen_sizes(node: u32, size: u64) -> bool {
    /// Sizes below are kept exactly; all others are always new.
    const LIMIT: u64 = 0xfffe;
    let Some(links) = LINKS.get(node) else { return true };
    let sizes = links.sizes.load(Relaxed);
    // The smallest plus 1 in the lower half, the largest plus 1 in the upper; 0: none.
    let (min, max, size) = (sizes & 0xffff, sizes >> 16, size.min(LIMIT) as u32 + 1);
    if size <= max && size >= min && u64::from(size) <= LIMIT {
        return false;
    }
    let min = if min == 0 { size } else { min.min(size) };
    links.sizes.store(min | max.max(size) << 16, Relaxed);
    true
}

/// A tally of the node is new and has no sizes.
pub(super) fn clear_sizes(node: u32) {
    if let Some(links) = LINKS.get(node) {
        links.sizes.store(0, Relaxed);
    }
}

/// Where the list of a node's shared tallies starts.
pub(super) fn shared_tally(node: u32) -> Option<&'static AtomicU32> {
    Some(&LINKS.get(node)?.shared_tally)
}

/// Appends a record. Nothing is at place 0: readers take such a record for one that is not written
/// yet.
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
