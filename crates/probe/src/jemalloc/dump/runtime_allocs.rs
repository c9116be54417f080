//! Blocks of the C and C++ runtimes that live as long as the process does: no leaks of the program.
//!
//! Only what is made by the runtime for itself. What a function of the runtime allocates for its
//! caller (`strdup`, `fopen`) counts as the caller's.

use heapwise_format::segment::{Module, Node, NodePlace, SectionKind};

use crate::session::Session;
use crate::sites::stack_tree;
use crate::symbols;

/// Identifies the runtime's blocks by their stacks.
pub(super) struct RuntimeAllocs {
    /// First address and length of glibc's function that makes the buffer of a stream.
    stream_buffers: (u64, u64),
}

impl RuntimeAllocs {
    pub(super) fn new() -> Self {
        let found = symbols::find_next(c"_IO_file_doallocate");
        Self { stream_buffers: found.map_or((0, 0), |found| (found.address as u64, found.len)) }
    }

    /// Whether a block with this stack is the runtime's own.
    pub(super) fn holds(&self, session: &Session, leaf: u32) -> bool {
        let Some(node) = stack_tree::node(session, leaf) else { return false };
        let NodePlace::Return(address) = NodePlace::decode(node.place) else { return false };
        let (start, len) = self.stream_buffers;
        address.wrapping_sub(start) < len || is_emergency_pool(session, &node)
    }
}

/// The memory that libstdc++ sets aside at load to throw `bad_alloc` from: allocated by libstdc++
/// itself, called by the loader.
fn is_emergency_pool(session: &Session, leaf: &Node) -> bool {
    if !is_in(session, leaf, b"/libstdc++.so") {
        return false;
    }
    let mut outermost = *leaf;
    while let Some(caller) = stack_tree::node(session, outermost.parent) {
        if caller.parent >= outermost.parent {
            break;
        }
        outermost = caller;
    }
    is_in(session, &outermost, b"/ld-")
}

fn is_in(session: &Session, node: &Node, name: &[u8]) -> bool {
    let record = node.module.checked_sub(1).map(u64::from);
    let module = record.and_then(|record| session.segment.read::<Module>(SectionKind::Modules, record));
    module.is_some_and(|module| module.path.windows(name.len()).any(|part| part == name))
}
