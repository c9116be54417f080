//! The stack tree: every distinct stack is one node, reached from its caller's node.
//!
//! Nodes are records in the segment, appended and never changed, so a node's number is a stable name
//! for a stack in this process. A private hash finds the child of a node; it takes no lock.
#![allow(unsafe_code)]

mod child_table;

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};

use heapwise_format::segment::{Counter, Node, SectionKind};

pub(crate) use child_table::Key;

use crate::segment;

/// The empty stack.
pub(crate) const ROOT: u32 = 0;

/// Next node to hand out.
static NEXT: AtomicU32 = AtomicU32::new(1);
/// Changes with each segment: what was remembered of another segment's nodes is void. Starts at 1:
/// zeroed memory belongs to no epoch.
static EPOCH: AtomicU32 = AtomicU32::new(1);

/// Starts an empty tree in a fresh segment: at start, and in the child of a fork. Memoised stacks are
/// void. No other thread may be unwinding.
pub(crate) fn init() {
    NEXT.store(ROOT + 1, Relaxed);
    child_table::clear();
    EPOCH.fetch_add(1, Relaxed);
    segment::counter(Counter::Nodes).store(u64::from(ROOT) + 1, Release);
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
pub(crate) fn child_of(key: Key) -> Option<u32> {
    let node = child_table::find_or_insert(key, || append(key));
    if node.is_none() {
        segment::count(Counter::LostNodes);
    }
    node
}

/// Appends a record. A thread that loses the race for the key leaves it unused: harmless.
fn append(key: Key) -> Option<u32> {
    let capacity = segment::section(SectionKind::Nodes).capacity;
    let reserve = |next: u32| (u64::from(next) < capacity).then_some(next + 1);
    let id = NEXT.fetch_update(Relaxed, Relaxed, reserve).ok()?;
    let node = Node { place: key.place, parent: key.parent, module: key.module };
    if !segment::write(SectionKind::Nodes, u64::from(id), node) {
        return None;
    }
    segment::counter(Counter::Nodes).fetch_max(u64::from(id) + 1, Release);
    Some(id)
}

/// Reads a node back.
pub(crate) fn node(id: u32) -> Option<Node> {
    if id == ROOT || id >= NEXT.load(Relaxed) {
        return None;
    }
    let record = segment::existing(SectionKind::Nodes, u64::from(id))?;
    // SAFETY: `id` was handed out, so its record is real and written.
    Some(unsafe { record.cast::<Node>().read() })
}
