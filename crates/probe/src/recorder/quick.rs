//! The quick ways: events of a thread that has agreed to everything in force (see `State::agree`), for which the ways
//! of `ledger` and `logged` would come to the same end by asking more.

use super::{Block, captured, ledger, logged, node_of};
use crate::shadow::Cell;
use crate::thread::{Kept, Quick, State};
use crate::unwind::{self, Entry};
use crate::{filter, index, log, shadow};

/// A block was allocated; false, and nothing is done, when it takes a closer look.
#[inline(always)]
pub(super) fn allocated(state: &mut State, block: Block, entry: &Entry) -> bool {
    let quick = state.quick();
    if quick == Quick::Nothing || !state.has_time() {
        return false;
    }
    // What is kept of a fresh block is mostly far from the processor, and finding its stack takes about as long as
    // bringing it near.
    if quick == Quick::Count {
        let cell = shadow::known(block.address);
        cell.inspect(|cell| cell.expect());
        count(state, block, entry, cell);
    } else {
        log::known(block.address).inspect(|place| place.expect());
        if let Some(node) = node_of(state, entry) {
            logged::write_alloc(state, block, node);
        }
    }
    true
}

#[inline(always)]
fn count(state: &mut State, block: Block, entry: &Entry, cell: Option<Cell>) {
    let Some(native) = unwind::familiar(&state.memo, *entry) else {
        return count_unfamiliar(state, block, entry, cell);
    };
    let node = state.script.above(native);
    if let Some(kept) = state.bucket(node, &block, ledger::EVERY) {
        count_in(state, block, node, kept, cell);
    }
}

/// Its bucket was not used lately either.
#[inline(never)]
fn count_unfamiliar(state: &mut State, block: Block, entry: &Entry, cell: Option<Cell>) {
    state.expect_bucket();
    let Some(native) = captured(state, entry) else { return };
    let node = state.script.above(native);
    if let Some(kept) = state.looked_up_bucket(&block, node, ledger::EVERY) {
        count_in(state, block, node, kept, cell);
    }
}

#[inline(always)]
fn count_in(state: &mut State, block: Block, node: u32, kept: Kept, cell: Option<Cell>) {
    if let Some(cell) = cell
        && cell.is_empty()
        && index::is_shadowed(block.address, block.size)
    {
        kept.counts.add_own_alloc(block.grown);
        cell.put(kept.bucket);
        if state.add_allocated(block.size) {
            state.flush();
        }
    } else {
        ledger::enter_under(state, &block, ledger::EVERY, kept, node);
    }
}

/// A block is about to be freed; false, and nothing is done, when it takes a closer look.
#[inline(always)]
pub(super) fn releases(state: &mut State, address: u64, caller: u64) -> bool {
    if !state.is_outside(caller) {
        return true;
    }
    match state.quick() {
        Quick::Count => state.has_time() && uncount(state, address).is_some(),
        Quick::Write if address != 0 && !filter::may_hold(address) && state.has_time() => {
            log::free(&mut state.log, address);
            true
        }
        _ => false,
    }
}

/// Counts a free in the shadow index; `None`, and nothing is done, when it does not know the block.
#[inline(always)]
pub(super) fn uncount(state: &mut State, address: u64) -> Option<()> {
    let cell = shadow::known(address)?;
    let bucket = cell.bucket()?;
    cell.clear();
    if let Some(freed) = state.known_freed(bucket) {
        freed.counts.add_own_free();
        if state.add_freed(address, freed.stands_for()) {
            state.flush();
        }
    } else {
        ledger::release(state, address, bucket);
    }
    Some(())
}
