//! The name of the native frames of a stack.

/// A node of the stack tree; or the hash of the frames, where frames of a language runtime are put
/// between them, so that they need no nodes of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct NativeId(u64);

/// Marks a hash.
const HASH: u64 = 1 << 63;

/// Hash of a stack, with one more frame.
#[inline(always)]
pub(crate) fn mixed(hash: u64, place: u64) -> u64 {
    let mixed = (hash.rotate_left(23) ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

impl NativeId {
    #[inline(always)]
    pub(crate) fn of_node(node: u32) -> NativeId {
        NativeId(u64::from(node))
    }

    #[inline(always)]
    pub(super) fn of_hash(hash: u64) -> NativeId {
        NativeId(hash | HASH)
    }

    /// The node, if that is what it is.
    #[inline(always)]
    pub(crate) fn node(self) -> Option<u32> {
        (self.0 & HASH == 0).then_some(self.0 as u32)
    }

    /// Different for different frames.
    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        self.0
    }
}
