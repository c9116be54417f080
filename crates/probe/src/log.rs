//! Log mode: every event, in order, into chunks that a controller drains.

use heapwise_format::segment::CallKind;

/// What a thread keeps between its events. Zeroed memory is valid: no chunk yet.
pub(crate) struct ThreadLog {
    _chunk: u64,
}

/// A block was allocated: called after the real call, before the program sees the block.
pub(crate) fn alloc(_log: &mut ThreadLog, _address: u64, _size: u64, _node: u32, _kind: CallKind) {}

/// A block is about to be freed: called before the real call.
pub(crate) fn free(_log: &mut ThreadLog, _address: u64) {}

/// The thread ends (or the mode changes): no more events from `log`.
pub(crate) fn end(_log: &mut ThreadLog) {}

/// Starts an empty log in a fresh segment (again after `fork`).
pub(crate) fn init() {}
