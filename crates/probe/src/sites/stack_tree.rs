//! The stack tree: every distinct stack is one node, reached from its caller's node.
//!
//! Nodes are records in the segment, appended and never changed, so a node's number is a stable
//! name for a stack in this process. A private hash finds the child of a node; it takes no lock.
#![allow(unsafe_code)]

use heapwise_format::segment::{Counter, Node, NodePlace, SectionKind};

use super::chain::{self, Array, End};
use super::hash_table::{Hash, HashTable};
use super::strings;
use crate::atomics::Ordering::{Relaxed, Release};
use crate::atomics::{AtomicU32, AtomicU64};
use crate::segment;
use crate::session::Session;

/// The empty stack.
pub(crate) const ROOT: u32 = 0;
/// Counts stacks that found no room in the tree.
pub(crate) const OUT_OF_STACKS: u32 = 1;
/// Counts sites that found no room for a tally.
pub(crate) const OUT_OF_SITES: u32 = 2;
/// First node of a stack.
const FIRST: u32 = 3;

/// The stack tree of a session. Zeroed memory is valid: no nodes.
pub(crate) struct StackTree {
    /// Next node to hand out.
    next: AtomicU32,
    links: Array<Links>,
    /// Children that are not among the first of their parent.
    children: HashTable,
}

/// A child to look for, and its hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    place: u64,
    parent: u32,
    module: u32,
    hash: u64,
}

impl Key {
    #[inline(always)]
    pub(crate) fn new(parent: u32, place: u64, module: u32) -> Key {
        let caller = u64::from(parent) | u64::from(module) << 32;
        let mixed = place ^ caller.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let product = u128::from(mixed) * 0x9e37_79b9_7f4a_7c15;
        Key { place, parent, module, hash: product as u64 ^ (product >> 64) as u64 }
    }
}

impl StackTree {
    /// Unmaps what finds the nodes. No thread may use it afterwards.
    pub(crate) fn release(&self) {
        self.links.release();
        self.children.release();
    }

    /// Requests large pages: every stack will be recorded.
    pub(crate) fn prefer_large_pages(&self) {
        self.links.prefer_large_pages();
    }

    #[inline(always)]
    fn has_hash(&self, node: u32, hash: u64) -> bool {
        self.links.get(node).is_some_and(|links| links.hash.load(Relaxed) == hash)
    }

    /// Looks among the first children.
    #[inline(always)]
    fn search(&self, key: Key) -> Option<End<'_>> {
        let first = &self.links.get(key.parent)?.child;
        let sibling = |node| Some(&self.links.get(node)?.sibling);
        Some(chain::search(first, sibling, |node| self.has_hash(node, key.hash)))
    }

    /// Where the tally of a node that was made first is kept.
    #[inline(always)]
    pub(crate) fn own_tally(&self, node: u32) -> Option<&AtomicU64> {
        Some(&self.links.get(node)?.tally)
    }

    /// Where the list of a node's shared tallies starts.
    pub(super) fn shared_tally(&self, node: u32) -> Option<&AtomicU32> {
        Some(&self.links.get(node)?.shared_tally)
    }

    /// A tally of the node is new and has no sizes.
    pub(super) fn clear_sizes(&self, node: u32) {
        if let Some(links) = self.links.get(node) {
            links.sizes.store(0, Relaxed);
        }
    }

    /// Whether `size` may be outside of the size range of a node's tallies; the range includes it
    /// afterwards. Saves most events the access to the record of a tally's sizes, which is another
    /// cache miss.
    #[inline(always)]
    pub(crate) fn widen_sizes(&self, node: u32, size: u64) -> bool {
        /// Sizes below are kept exactly; all others are always new.
        const LIMIT: u64 = 0xfffe;
        let Some(links) = self.links.get(node) else { return true };
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
}

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
    /// Range of the sizes in its tallies, see [`StackTree::widen_sizes`].
    sizes: AtomicU32,
}

/// Nodes whose links fill a page or so.
const NODES_OF_PAGE: u32 = 4096 / size_of::<Links>() as u32;

/// Starts an empty tree. To be called after [`strings::describe`].
pub(crate) fn describe(session: &Session) {
    let StackTree { next, links, .. } = &session.stack_tree;
    let segment = &session.segment;
    next.store(FIRST, Relaxed);
    links.map(segment.section(SectionKind::Nodes).capacity);
    for (node, name) in [(OUT_OF_STACKS, strings::OUT_OF_STACKS), (OUT_OF_SITES, strings::OUT_OF_SITES)] {
        let place = NodePlace::Declared { string: strings::reserved(name), line: 0 }.encode();
        segment.append(SectionKind::Nodes, node.into(), Node { place, parent: ROOT, module: 0 });
    }
    segment.counter(Counter::Nodes).store(u64::from(FIRST), Release);
}

/// The node of `place` (an encoded [`heapwise_format::segment::NodePlace`]) called from `parent`;
/// made if it is new. `module` is a record plus 1, 0 when unknown. `None` when there is no room.
#[must_use]
pub(crate) fn child(session: &Session, parent: u32, place: u64, module: u32) -> Option<u32> {
    child_of(session, Key::new(parent, place, module))
}

/// As [`child`], for a key whose hash the caller already computed.
#[inline(always)]
pub(crate) fn child_of(session: &Session, key: Key) -> Option<u32> {
    match session.stack_tree.search(key) {
        Some(End::Found(node)) => Some(node),
        end => new_child(session, key, end),
    }
}

/// The child that is not among the first ones, or the end of those where it belongs.
#[inline(never)]
fn new_child(session: &Session, key: Key, end: Option<End<'_>>) -> Option<u32> {
    match end {
        Some(End::Found(node)) => Some(node),
        Some(End::Open(link)) => appended(session, key, link),
        Some(End::Long) | None => {
            let children = &session.stack_tree.children;
            children.find_or_insert(&session.segment, Hash(key.hash), || append(session, key))
        }
    }
}

/// Makes a child at the end of its parent's list. A thread that loses the race for it leaves a node
/// unused: harmless.
fn appended(session: &Session, key: Key, end: &AtomicU32) -> Option<u32> {
    let id = append(session, key)?;
    session.stack_tree.links.get(id)?.hash.store(key.hash, Relaxed);
    if chain::append(end, id) { Some(id) } else { child_of(session, key) }
}

/// Appends a record. Nothing is at place 0: readers take such a record for one that is not written
/// yet.
fn append(session: &Session, key: Key) -> Option<u32> {
    let segment = &session.segment;
    if key.place == 0 {
        return None;
    }
    let capacity = segment.section(SectionKind::Nodes).capacity;
    let reserve = |next: u32| (u64::from(next) < capacity).then_some(next + 1);
    let id = session.stack_tree.next.fetch_update(Relaxed, Relaxed, reserve).ok()?;
    let node = Node { place: key.place, parent: key.parent, module: key.module };
    if !segment.append(SectionKind::Nodes, u64::from(id), node) {
        return None;
    }
    segment.counter(Counter::Nodes).fetch_max(u64::from(id) + 1, Release);
    if id.is_multiple_of(NODES_OF_PAGE) {
        segment.counter(Counter::OwnBytes).fetch_add(4096, Relaxed);
    }
    Some(id)
}

/// Reads a node back.
pub(crate) fn node(session: &Session, id: u32) -> Option<Node> {
    if id == ROOT || id >= session.stack_tree.next.load(Relaxed) {
        return None;
    }
    let record = session.segment.existing(SectionKind::Nodes, u64::from(id))?;
    // SAFETY: a node has two words.
    let [place, caller] = [0, 8].map(|byte| unsafe { segment::word64(record, byte) }.load(Relaxed));
    Some(Node { place, parent: caller as u32, module: (caller >> 32) as u32 })
}
