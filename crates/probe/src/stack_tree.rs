//! The tree of stacks in the segment: every distinct (caller, place) once.

use core::sync::atomic::Ordering;

use heapwise_format::segment::{Counter, Node, SectionKind};

use crate::segment;

/// Starts an empty tree in a fresh segment (again after `fork`).
pub(crate) fn init() {
    segment::counter(Counter::Nodes).store(1, Ordering::Relaxed);
}

/// The node of `place` called from `parent`; `parent` itself when the table is full.
pub(crate) fn child(parent: u32, place: u64, module: u32) -> u32 {
    let nodes = segment::counter(Counter::Nodes);
    let used = nodes.load(Ordering::Relaxed);
    let found = (1..used).find(|index| {
        // SAFETY: nodes below the counter are written.
        segment::existing(SectionKind::Nodes, *index).is_some_and(|node| {
            #[allow(unsafe_code, clippy::undocumented_unsafe_blocks)]
            unsafe {
                *node.cast::<Node>() == Node { place, parent, module }
            }
        })
    });
    if let Some(found) = found {
        return found as u32;
    }
    if !segment::write(SectionKind::Nodes, used, Node { place, parent, module }) {
        segment::count(Counter::LostNodes);
        return parent;
    }
    nodes.store(used + 1, Ordering::Release);
    used as u32
}
