//! Calls of a state: the list of `CallInfo`.
#![allow(unsafe_code)]

use core::ops::Range;

use super::layout::Layout;
use super::layout::common::{
    CALL_BYTES, CALL_TOP, CODE_LEN, FUNCTION, LUA_FUNCTION, LUA_FUNCTION_VALUE, PREVIOUS, PROTO, PROTO_BYTES,
    TYPE, VALUE_BYTES,
};
use crate::runtimes::memory::{Pages, byte, half_word, word};

/// Bytes of an instruction.
pub(super) const INSTRUCTION: u64 = 4;

/// A `CallInfo` that can be read.
#[derive(Clone, Copy)]
pub(super) struct Call(u64);

impl Call {
    /// The call at an address; `None` when it cannot be read.
    #[inline(always)]
    pub(super) fn at(pages: &mut Pages, address: u64) -> Option<Call> {
        (address.is_multiple_of(8) && pages.holds_all(address, CALL_BYTES)).then_some(Call(address))
    }

    #[inline(always)]
    fn word(self, offset: u64) -> u64 {
        // SAFETY: `at` has checked the struct.
        unsafe { word(self.0 + offset) }
    }

    /// The call that it was made from; 0: none.
    #[inline(always)]
    pub(super) fn previous(self) -> u64 {
        self.word(PREVIOUS)
    }

    /// The function's place on the state's stack; an offset while the stack is moved.
    pub(super) fn function(self) -> u64 {
        self.word(FUNCTION)
    }

    /// The end of its registers on the state's stack.
    pub(super) fn top(self) -> u64 {
        self.word(CALL_TOP)
    }

    /// Its next instruction, as Lua has saved it.
    #[inline(always)]
    pub(super) fn saved_pc(self, layout: &Layout) -> u64 {
        self.word(u64::from(layout.saved_pc))
    }

    /// Whether it runs a Lua function.
    #[inline(always)]
    pub(super) fn is_lua(self, layout: &Layout) -> bool {
        let at = self.0 + u64::from(layout.status);
        // SAFETY: `at` has checked the struct; the field may be in the upper half of a word of 4
        // bytes.
        let status = unsafe { half_word(at & !3) } >> ((at & 2) * 8);
        (status >> layout.status_bit & 1 != 0) == layout.bit_means_lua
    }

    /// The code of the Lua function at `function`, a place on the stack.
    pub(super) fn code(self, layout: &Layout, pages: &mut Pages, function: u64) -> Option<Range<u64>> {
        let proto = proto_at(pages, function)?;
        // SAFETY: `proto_at` has checked it.
        let (start, len) =
            unsafe { (word(proto + u64::from(layout.proto.code)), u64::from(half_word(proto + CODE_LEN))) };
        Some(start..start.wrapping_add(len * INSTRUCTION))
    }
}

/// The prototype of the Lua function at a place on the stack; `None` when it cannot be read.
pub(super) fn proto_at(pages: &mut Pages, function: u64) -> Option<u64> {
    if !function.is_multiple_of(8) || !pages.holds_all(function, VALUE_BYTES) {
        return None;
    }
    // SAFETY: checked.
    let (closure, kind) = unsafe { (word(function), byte(function + TYPE)) };
    if kind != LUA_FUNCTION_VALUE || !closure.is_multiple_of(8) || !pages.holds_all(closure, PROTO + 8) {
        return None;
    }
    // SAFETY: checked.
    let (kind, proto) = unsafe { (byte(closure + TYPE), word(closure + PROTO)) };
    let is_readable = kind == LUA_FUNCTION && proto.is_multiple_of(8) && pages.holds_all(proto, PROTO_BYTES);
    is_readable.then_some(proto)
}
