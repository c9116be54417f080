//! Handling of an event, by the mode in force.
//!
//! Two paths: the stubs call [`fast_path`], which handles the usual event of exact and log mode and
//! declines every other one; [`slow_path`] (exact and log mode) and [`sampled`] handle everything.

pub(crate) mod exponential;
mod fast_path;
pub(crate) mod peak;
mod resize;
mod sampled;
pub(crate) mod sampler;
pub(crate) mod sizes;
mod slow_path;
pub(crate) mod usable;

use core::ffi::c_void;

use heapwise_format::segment::Counter;

pub(crate) use fast_path::{ON_ALLOCATED, ON_RELEASING, choose as choose_fast_path};
pub(crate) use resize::{Resizing, resized};

use crate::control::Activity;
use crate::sites::stack_tree;
use crate::threads::{Busy, Words};
use crate::unwind::{self, Captured, Entry, OwnStack};
use crate::{arena, control, fork, hooks, segment};

type Pointer = *mut c_void;

/// A block that was just allocated.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Allocated by `realloc`: the bytes that it added to the old block.
    grown: Option<u64>,
}

/// After an allocation that the fast path declined: called by the stubs with the real function's
/// result, which it returns.
pub(crate) extern "C" fn recorded(block: Pointer, size: usize, pc: u64, sp: u64, fp: u64) -> Pointer {
    record(&Block { address: block as u64, size: size as u64, grown: None }, &Entry { pc, sp, fp });
    block
}

/// After an allocation by one of the wrappers; returns the block.
pub(crate) fn allocated(block: Pointer, size: usize, entry: &Entry) -> Pointer {
    if !fast_path::allocate(block, size, entry) {
        record(&Block { address: block as u64, size: size as u64, grown: None }, entry);
    }
    block
}

#[inline(never)]
fn record(block: &Block, entry: &Entry) {
    match control::activity() {
        Activity::Idle | Activity::Sampling => sampled::allocated(block, entry),
        Activity::Exact | Activity::Log if block.address != 0 => slow_path::allocated(block, entry),
        Activity::Exact | Activity::Log => {}
    }
}

/// Before a block is freed that the fast path declined: called by the stubs; returns what is to be
/// freed.
#[inline(never)]
pub(crate) extern "C" fn releasing(block: Pointer, caller: u64) -> Pointer {
    if block.is_null() || arena::holds(block) {
        return core::ptr::null_mut();
    }
    slow_path::freed(block as u64, caller);
    block
}

/// The stack of an event on a thread without a state: it ended, has no memory, or was interrupted
/// inside the probe. `None` when the call is part of another one.
#[cold]
#[inline(never)]
fn capture_alone(entry: &Entry, interrupted: bool) -> Option<u32> {
    // A forked child that was interrupted on its way to a segment of its own has only its parent's.
    if hooks::is_nested_call(entry.pc) || fork::is_forked_child() {
        return None;
    }
    if interrupted {
        segment::count(Counter::Reentrant);
    }
    let captured = unwind::capture_plain(&mut OwnStack::default(), entry, control::depth());
    note(&captured);
    Some(captured.node)
}

/// The stack of a call that is not an allocation, on any thread.
pub(crate) fn capture_shared(words: &Words, busy: &mut Busy<'_>, entry: &Entry) -> u32 {
    let captured = unwind::capture_plain(words.own_stack(busy), entry, control::depth());
    note(&captured);
    let state = words.existing_state(busy);
    state.map_or(captured.node, |state| state.declared.above(captured.node))
}

/// Counts how a stack ended.
#[inline(always)]
fn note(captured: &Captured) {
    if captured.truncated {
        segment::count(Counter::Truncated);
    }
    if captured.broken {
        segment::count(Counter::Broken);
    }
    if captured.node == stack_tree::OUT_OF_STACKS {
        segment::count_loss(Counter::LostNodes);
    }
}
