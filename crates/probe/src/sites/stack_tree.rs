//! The stack tree: every distinct stack is one node, reached from its caller's node.
//!
//! Nodes are records in the segment, appended and never changed but for the lists that begin in
//! them, so a node's number is a stable name for a stack in this process. No lookup takes a lock.
#![allow(unsafe_code)]

use core::mem::offset_of;

use heapwise_format::segment::{Counter, Node, NodePlace, SectionKind};

use super::chain::{self, End};
use super::hash_table::{Hash, HashTable};
use super::strings;
use crate::atomics::Ordering::{AcqRel, Relaxed, Release};
use crate::atomics::{AtomicPtr, AtomicU32, AtomicU64};
use crate::session::Session;

/// The empty stack.
pub(crate) const ROOT: u32 = 0;
/// Counts stacks that found no room in the tree.
pub(crate) const OUT_OF_STACKS: u32 = 1;
/// Counts sites that found no room for a tally.
pub(crate) const OUT_OF_SITES: u32 = 2;

/// The stack tree of a session. Zeroed memory is valid: no nodes.
pub(crate) struct StackTree {
    /// The first record; null without a segment.
    base: AtomicPtr<Record>,
    /// Next node to hand out. All records below are populated. Private: the segment may be
    /// overwritten by others.
    next: AtomicU32,
    /// Children that are not among the first of their parent.
    children: HashTable,
}

/// A [`Node`] in the segment, and what finds its children and tallies. Zeroed memory is valid:
/// none.
#[repr(C)]
struct Record {
    /// [`Node::key`], stored last.
    key: AtomicU64,
    /// Its first child.
    child: AtomicU32,
    /// Its first tally.
    tally: AtomicU32,
    /// Its parent's next child.
    sibling: AtomicU32,
    parent: AtomicU32,
}

const _: () = assert!(size_of::<Record>() == Node::BYTES);
const _: () = assert!(offset_of!(Record, parent) == Node::AT_PARENT);

/// A child to look for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// [`Node::key`].
    place: u64,
    parent: u32,
}

impl Key {
    #[inline(always)]
    pub(crate) fn new(parent: u32, place: u64, module: u32) -> Key {
        Key { place: Node::key(place, module), parent }
    }

    fn hash(self) -> Hash {
        let mixed = self.place ^ u64::from(self.parent).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let product = u128::from(mixed) * 0x9e37_79b9_7f4a_7c15;
        Hash(product as u64 ^ (product >> 64) as u64)
    }
}

impl StackTree {
    /// Unmaps what finds the nodes. No thread may use it afterwards.
    pub(crate) fn release(&self) {
        self.children.release();
    }

    /// The record of a node that was handed out.
    #[inline(always)]
    fn record(&self, node: u32) -> Option<&Record> {
        // SAFETY: records below `next` are populated and stay mapped as long as the session; their
        // words are atomics.
        (node < self.next.load(Relaxed)).then(|| unsafe { &*self.base.load(Relaxed).add(node as usize) })
    }

    /// Looks among the first children.
    #[inline(always)]
    fn search(&self, key: Key) -> Option<End<'_>> {
        let first = &self.record(key.parent)?.child;
        let sibling = |node| Some(&self.record(node)?.sibling);
        let is_it = |node| self.record(node).is_some_and(|record| record.key.load(Relaxed) == key.place);
        Some(chain::search(first, sibling, is_it))
    }

    /// Where the list of a node's tallies starts (see `tallies::lists`).
    #[inline(always)]
    pub(crate) fn first_tally(&self, node: u32) -> Option<&AtomicU32> {
        Some(&self.record(node)?.tally)
    }
}

/// Starts an empty tree. To be called after [`strings::describe`].
pub(crate) fn describe(session: &Session) {
    let StackTree { base, next, .. } = &session.stack_tree;
    let segment = &session.segment;
    let section = segment.section(SectionKind::Nodes);
    base.store(segment.base().wrapping_add(section.offset as usize).cast(), Relaxed);
    if segment.record(SectionKind::Nodes, ROOT.into()).is_none() {
        return;
    }
    next.store(OUT_OF_STACKS, Relaxed);
    for name in [strings::OUT_OF_STACKS, strings::OUT_OF_SITES] {
        let place = NodePlace::Declared { string: strings::reserved(name), line: 0 }.encode();
        append(session, Key::new(ROOT, place, 0));
    }
}

/// The node of `place` (an encoded [`heapwise_format::segment::NodePlace`]) called from `parent`;
/// made if it is new. `module` is a record plus 1, 0 when unknown. `None` when there is no room.
#[must_use]
pub(crate) fn child(session: &Session, parent: u32, place: u64, module: u32) -> Option<u32> {
    child_of(session, Key::new(parent, place, module))
}

/// As [`child`].
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
            children.find_or_insert(&session.segment, key.hash(), || append(session, key))
        }
    }
}

/// Makes a child at the end of its parent's list. A thread that loses the race for it leaves a node
/// unused: harmless.
fn appended(session: &Session, key: Key, end: &AtomicU32) -> Option<u32> {
    let id = append(session, key)?;
    if chain::append(end, id) { Some(id) } else { child_of(session, key) }
}

/// Appends a record. Nothing is at place 0: readers take such a record for one that is not written
/// yet.
fn append(session: &Session, key: Key) -> Option<u32> {
    let (segment, tree) = (&session.segment, &session.stack_tree);
    if key.place == 0 {
        return None;
    }
    let mut id = tree.next.load(Relaxed);
    loop {
        segment.record(SectionKind::Nodes, id.into())?;
        match tree.next.compare_exchange(id, id + 1, AcqRel, Relaxed) {
            Ok(_) => break,
            Err(other) => id = other,
        }
    }
    let record = tree.record(id)?;
    record.parent.store(key.parent, Relaxed);
    record.key.store(key.place, Release);
    segment.counter(Counter::Nodes).fetch_max(u64::from(id) + 1, Release);
    Some(id)
}

/// Reads a node back.
pub(crate) fn node(session: &Session, id: u32) -> Option<Node> {
    let record = session.stack_tree.record(id).filter(|_| id != ROOT)?;
    Some(Node::from_key(record.key.load(Relaxed), record.parent.load(Relaxed)))
}
