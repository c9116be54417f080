//! Handling of an event, by the mode in force.
//!
//! Two paths: the stubs call [`fast_path`], which handles the usual event of exact and log mode and
//! declines every other one; [`slow_path`] (exact and log mode) and [`sampled`] handle everything.

pub(crate) mod exponential;
mod fast_path;
mod in_arena;
pub(crate) mod peak;
mod resize;
mod sampled;
pub(crate) mod sampler;
pub(crate) mod sizes;
mod slow_path;
pub(crate) mod usable;

use core::ffi::c_void;

use heapwise_format::segment::Counter;

pub(crate) use fast_path::Counted;
pub(crate) use fast_path::{ON_ALLOCATED, ON_RELEASING, choose as choose_fast_path};
#[cfg(target_arch = "x86_64")]
pub(crate) use fast_path::{allocate_exact, flush, release_exact};
pub(crate) use in_arena::{ON_ALLOCATED_IN_ARENA, ON_RELEASING_IN_ARENA, releasing_in_arena};
pub(crate) use resize::{Resizing, resized};

use crate::arch::words;
use crate::control::Activity;
use crate::hooks::HookMode;
use crate::inside::{Inside, enter, nested};
use crate::segment::Segment;
use crate::sites::stack_tree;
use crate::sites::tallies::TallyRef;
use crate::unwind::{self, Captured, Entry};
use crate::{arena, hooks, runtimes};
use usable::{Family, Source};

type Pointer = *mut c_void;

/// A block that was just allocated.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Allocated by `realloc`: the bytes that it added to the old block.
    grown: Option<u64>,
    pub(crate) source: Source,
    /// The stack cache is known not to have its stack.
    is_uncached: bool,
}

impl Block {
    fn new(block: Pointer, size: usize, source: Source) -> Block {
        Block { address: block as u64, size: size as u64, grown: None, source, is_uncached: false }
    }
}

/// After an allocation, unless the fast path did all: called by the stubs with the real function's
/// result, which it returns.
pub(crate) extern "C" fn recorded(
    block: Pointer,
    size: usize,
    pc: u64,
    sp: u64,
    fp: u64,
    done: Counted,
) -> Pointer {
    let entry = Entry { pc, sp, fp };
    if !fast_path::finish(done, block) {
        let is_uncached = done == Counted::Uncached;
        record(&Block { is_uncached, ..Block::new(block, size, Source::LINKED) }, &entry);
    }
    block
}

/// After an allocation by the allocator of a language runtime, in one of its arenas.
pub(crate) fn allocated_in_arena(block: Pointer, size: usize, entry: &Entry) {
    if !(HookMode::counts_allocations() && words().count_down(size as u64)) {
        allocated(block, size, entry);
    }
}

/// Applies control changes, after `size` bytes for which the countdown of the thread ran out;
/// whether blocks are recorded now.
pub(crate) fn poll(size: u64) -> bool {
    let Some(inside) = enter() else { return false };
    if inside.control.activity() == Activity::Idle {
        sampled::poll(&inside, size);
    }
    inside.control.activity() != Activity::Idle
}

/// After an allocation by one of the wrappers; returns the block.
pub(crate) fn allocated(block: Pointer, size: usize, entry: &Entry) -> Pointer {
    if !fast_path::allocate(block, size, entry) {
        record(&Block::new(block, size, Source::LINKED), entry);
    }
    block
}

/// As [`allocated`], for a block with an alignment.
pub(crate) fn allocated_aligned(block: Pointer, size: usize, entry: &Entry) -> Pointer {
    // glibc's usable size is computed.
    if !fast_path::is_over_glibc() {
        record(&Block::new(block, size, Source { family: Family::LINKED, is_measured: true }), entry);
        return block;
    }
    allocated(block, size, entry)
}

/// After an allocation by a function that is hooked at its entry.
pub(crate) fn allocated_from(source: Source, block: Pointer, size: usize, entry: &Entry) {
    if source.family == Family::LINKED {
        match source.is_measured {
            true => allocated_aligned(block, size, entry),
            false => allocated(block, size, entry),
        };
    } else if !fast_path::allocate_from(source, block, size, entry) {
        record(&Block::new(block, size, source), entry);
    }
}

#[inline(never)]
fn record(block: &Block, entry: &Entry) {
    match enter() {
        Some(mut inside) => record_inside(&mut inside, block, entry),
        None => record_nested(block, entry),
    }
}

fn record_inside(inside: &mut Inside, block: &Block, entry: &Entry) {
    if runtimes::is_thread_ending() {
        return;
    }
    match inside.control.activity() {
        Activity::Idle | Activity::Sampling => sampled::allocated(inside, block, entry),
        Activity::Exact | Activity::Log if block.address != 0 => slow_path::allocated(inside, block, entry),
        Activity::Exact | Activity::Log => {}
    }
}

/// An allocation in a signal handler that interrupted the probe: it is not sampled, and counted in
/// shared tallies where every block is.
#[cold]
fn record_nested(block: &Block, entry: &Entry) {
    let Some(session) = nested() else { return };
    match session.control.activity() {
        _ if hooks::is_nested_call(entry.pc) => {}
        Activity::Idle | Activity::Sampling => session.segment.count(Counter::Reentrant),
        Activity::Exact | Activity::Log if block.address != 0 => {
            session.segment.count(Counter::Reentrant);
            slow_path::count_alone(&session, block, entry);
        }
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
    slow_path::freed(block as u64, caller, Family::LINKED);
    block
}

/// Before a block is freed by a function that is hooked at its entry.
pub(crate) fn freeing(family: Family, block: Pointer, caller: u64) {
    if family == Family::LINKED {
        fast_path::release(block, caller);
    } else if !block.is_null() && !fast_path::release_from(family, block, caller) {
        slow_path::freed(block as u64, caller, family);
    }
}

/// The stack of a call that is not an allocation, on any thread.
pub(crate) fn capture_shared(inside: &mut Inside, entry: &Entry) -> Captured {
    let (session, own_stack) = inside.with_own_stack();
    let captured = unwind::capture_plain(session, own_stack, entry, session.control.depth());
    note(&session.segment, &captured);
    let node = runtimes::weave_shared(inside, captured.name, entry);
    note_node(&inside.segment, node);
    let (session, state) = inside.with_existing_state();
    let name = state.map_or(node, |state| state.declared.above(session, node));
    Captured { name, ..captured }
}

/// Counts a stack that was cut.
#[inline(always)]
fn note<Name>(segment: &Segment, captured: &Captured<Name>) {
    if captured.truncated {
        segment.count(Counter::Truncated);
    }
}

/// Counts a broken stack when its tally is new: once per site, so that it can be cached.
#[inline(always)]
fn note_broken(segment: &Segment, is_broken: bool, tally: TallyRef) {
    if is_broken && tally.counts.is_new() {
        segment.count(Counter::Broken);
    }
}

/// Counts a stack that found no room in the tree.
#[inline(always)]
fn note_node(segment: &Segment, node: u32) {
    if node == stack_tree::OUT_OF_STACKS {
        segment.count_loss(Counter::LostNodes);
    }
}
