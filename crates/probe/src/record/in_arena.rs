//! Blocks in arenas of a language runtime: what the stubs of its wrapped allocators call. Blocks
//! that are elsewhere reach `malloc` and `free`, whose hooks record them.

use super::fast_path::{Allocated, Counted, Releasing, count_by_position, freed_in_arena};
use super::{Pointer, fast_path, sampled};
use crate::arch::words;
use crate::atomics::AtomicPtr;
use crate::hooks::HookMode;
use crate::live::filter;
use crate::runtimes::python::{arenas, counting, may_need_note, note_free};
use crate::unwind::Entry;

/// What follows an allocation in the mode in force, an [`Allocated`].
pub(crate) static ON_ALLOCATED_IN_ARENA: AtomicPtr<()> = AtomicPtr::new(allocated as Allocated as *mut ());
/// What precedes a free in the mode in force, a [`Releasing`].
pub(crate) static ON_RELEASING_IN_ARENA: AtomicPtr<()> = AtomicPtr::new(releasing as Releasing as *mut ());

/// After an allocation, in any mode.
pub(super) extern "C" fn allocated(block: Pointer, size: usize, _: u64, _: u64, _: u64) -> Counted {
    let is_in_arena = arenas::hold(block as u64);
    let is_counting = HookMode::counts_allocations();
    if is_counting && !block.is_null() {
        counting::note_service(size, is_in_arena);
    }
    match !is_in_arena || is_counting && words().count_down(size as u64) {
        true => Counted::Done,
        false => Counted::Declined,
    }
}

/// After an allocation, where samples are in the shadow index.
pub(super) extern "C" fn allocated_sampled(
    block: Pointer,
    size: usize,
    pc: u64,
    sp: u64,
    fp: u64,
) -> Counted {
    match allocated(block, size, pc, sp, fp) {
        Counted::Declined => sampled::allocated_fast::<true>(block, size, pc, sp, fp),
        counted => counted,
    }
}

/// Before a free, in any mode.
pub(super) extern "C" fn releasing(block: Pointer, caller: u64) -> Pointer {
    note_free(block);
    if arenas::hold(block as u64) {
        releasing_in_arena(block, caller);
    }
    block
}

/// Before a block in an arena is freed, in any mode.
pub(crate) fn releasing_in_arena(block: Pointer, caller: u64) {
    if !HookMode::filters_frees() || filter::may_hold(block as u64) {
        fast_path::release(block, caller);
    }
}

/// After an allocation, where every block is recorded.
pub(super) extern "C" fn allocated_fast<const LOG: bool, const MIN_CHUNK_32: bool, const AT_ONCE: bool>(
    block: Pointer,
    size: usize,
    pc: u64,
    sp: u64,
    fp: u64,
) -> Counted {
    match arenas::hold(block as u64) {
        true => count_by_position::<LOG, MIN_CHUNK_32, AT_ONCE>(block, size, Entry { pc, sp, fp }),
        false => Counted::Done,
    }
}

/// Before a free, where every block is recorded.
pub(super) extern "C" fn freed_fast<const LOG: bool, const MIN_CHUNK_32: bool>(
    block: Pointer,
    caller: u64,
) -> Pointer {
    if may_need_note(block) {
        return releasing(block, caller);
    }
    match arenas::hold(block as u64) {
        true => freed_in_arena::<LOG, MIN_CHUNK_32>(block, caller),
        false => block,
    }
}
