//! What reading the stack of a runtime needs of the calling thread, where its frames are not cached
//! one by one: LuaJIT and Ruby.

use super::memory::Pages;
use super::names::Names;
use crate::unwind::OwnStack;

/// Bounds of the thread's C stack, pages that can be read, names in the segment. Zeroed memory is
/// valid: nothing.
pub(super) struct StackReader {
    pub(super) own_stack: OwnStack,
    pub(super) pages: Pages,
    pub(super) names: Names,
}

impl StackReader {
    /// Drops what is known of another thread's stack.
    pub(super) fn reset(&mut self) {
        self.own_stack = OwnStack::default();
        self.pages.clear();
    }

    /// Drops names of another segment.
    pub(super) fn validate(&mut self, generation: u64) {
        self.names.validate(generation);
    }
}
