//! The quick ways: events of a thread that has agreed to everything in force (see `State::agree`), for which the ways
//! of `ledger` and `logged` would come to the same end by asking more.

use crate::atomics::Ordering;

use super::{Block, ledger, node_of};
use crate::thread::{Quick, State};
use crate::unwind::Entry;
use crate::{filter, log, shadow};

/// A block was allocated; false, and nothing is done, when it takes a closer look.
#[inline(always)]
pub(super) fn allocated(state: &mut State, block: Block, entry: &Entry) -> bool {
    let quick = state.quick();
    if quick == Quick::Nothing || !state.has_time() {
        return false;
    }
    let Some(node) = node_of(state, entry) else { return true };
    if quick == Quick::Count {
        count(state, block, node);
    } else {
        log::alloc(&mut state.log, block.address, block.size, node, block.is_reallocated());
    }
    true
}

#[inline(always)]
fn count(state: &mut State, block: Block, node: u32) {
    if let Some(kept) = state.known_bucket(block.alike(node, ledger::EVERY))
        && let Some(granule) = shadow::known(block.address)
        && granule.load(Ordering::Relaxed) == 0
    {
        kept.counts.add_own_alloc(block.grown);
        granule.store(kept.bucket, Ordering::Relaxed);
        if state.add_allocated(block.size) {
            state.flush();
        }
    } else {
        enter(state, node, block.address, block.size, block.kind, block.grown);
    }
}

/// With a block in pieces, so that none need be stored on the quick way.
#[inline(never)]
fn enter(state: &mut State, node: u32, address: u64, size: u64, kind: u32, grown: u64) {
    ledger::enter(state, &Block { address, size, kind, grown }, ledger::EVERY, node);
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

#[inline(always)]
fn uncount(state: &mut State, address: u64) -> Option<()> {
    let granule = shadow::known(address)?;
    let bucket = granule.load(Ordering::Relaxed);
    if bucket == 0 {
        return None;
    }
    granule.store(0, Ordering::Relaxed);
    if let Some(kept) = state.known_freed(bucket) {
        kept.counts.add_own_free();
        if state.add_freed(address, kept.stands_for()) {
            state.flush();
        }
    } else {
        ledger::release(state, address, bucket);
    }
    Some(())
}
