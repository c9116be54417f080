//! From the registers at a hook's entry to a node of the stack tree.

use crate::stack_tree;

/// The caller's state at the entry of a hook, as if the hook had just returned.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Entry {
    /// Return address.
    pub(crate) pc: u64,
    /// Stack pointer after the return.
    pub(crate) sp: u64,
    /// Frame pointer register.
    pub(crate) fp: u64,
}

/// The last stack of a thread. Zeroed memory is valid: no stack yet.
pub(crate) struct Memo {
    _frames: [u64; 2],
}

/// A captured stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captured {
    /// Node of the innermost frame.
    pub(crate) node: u32,
    /// Cut at the depth limit.
    pub(crate) truncated: bool,
    /// Ends in code without unwind information.
    pub(crate) broken: bool,
}

/// The stack at `entry`, unwinding only what changed since the last call on this thread.
pub(crate) fn capture(_memo: &mut Memo, entry: Entry, max_depth: u32) -> Captured {
    capture_plain(entry, max_depth)
}

/// The stack at `entry`, without memory of earlier ones. Must be safe to enter again from a signal
/// handler that interrupted it.
pub(crate) fn capture_plain(entry: Entry, _max_depth: u32) -> Captured {
    Captured { node: stack_tree::child(0, entry.pc, 0), truncated: true, broken: false }
}
