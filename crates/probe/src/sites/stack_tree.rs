//! The stack tree: every distinct stack is one node, reached from its caller's node.
//!
//! Nodes are records in the segment, appended and never changed, so a node's number is a stable
//! name for a stack in this process. A private hash finds the child of a node; it takes no lock.
#![allow(unsafe_code)]

use heapwise_format::segment::{Counter, Node, NodePlace, SectionKind};

use super::chain::{self, Array, End};
use super::hash_table::{Hash, HashTable};
use super::strings;
use crate::atomics::AtomicU32;
use crate::atomics::Ordering::{Relaxed, Release};
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
        self.links.get(node).is_some_and(|links| links.has_hash(hash))
    }

    /// Looks among the first children.
    #[inline(always)]
    fn search(&self, key: Key) -> Option<End<'_>> {
        let first = &self.links.get(key.parent)?.child;
        let sibling = |node| Some(&self.links.get(node)?.sibling);
        Some(chain::search(first, sibling, |node| self.has_hash(node, key.hash)))
    }

    /// Where the list of a node's tallies starts (see `tallies::lists`).
    #[inline(always)]
    pub(crate) fn first_tally(&self, node: u32) -> Option<&AtomicU32> {
        Some(&self.links.get(node)?.tally)
    }
}

/// Data of a node besides its record. Zeroed memory is valid: none.
struct Links {
    /// The lower half of the hash of its [`Key`]. 16 more bits are beside the two numbers below:
    /// two keys of one parent are confused with a probability of 2⁻⁴⁸.
    hash: AtomicU32,
    /// Its first child, and its parent's next one.
    child: AtomicU32,
    sibling: AtomicU32,
    /// Its first tally.
    tally: AtomicU32,
}

impl Links {
    /// The parts of a hash beside the numbers of the child and of the sibling.
    #[inline(always)]
    fn beside(hash: u64) -> [u32; 2] {
        [(hash >> 32) as u32 & !chain::NUMBER, (hash >> 24) as u32 & !chain::NUMBER]
    }

    #[inline(always)]
    fn has_hash(&self, hash: u64) -> bool {
        let [child, sibling] = Links::beside(hash);
        let differences = (self.hash.load(Relaxed) ^ hash as u32)
            | ((self.child.load(Relaxed) ^ child) | (self.sibling.load(Relaxed) ^ sibling)) & !chain::NUMBER;
        differences == 0
    }

    /// Sets the hash of a new node, which has no child yet and is in no list.
    fn set_hash(&self, hash: u64) {
        let [child, sibling] = Links::beside(hash);
        self.hash.store(hash as u32, Relaxed);
        self.child.store(child, Relaxed);
        self.sibling.store(sibling, Relaxed);
    }
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
    session.stack_tree.links.get(id)?.set_hash(key.hash);
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
