//! Log mode: every event is written down; pairing and counting are the controller's.

use super::timing::Timing;
use super::{Block, captured_alone, node_of};
use crate::arch::words;
use crate::log::ThreadLog;
use crate::thread::State;
use crate::unwind::Entry;
use crate::{control, index, log};

pub(super) fn allocated(block: &Block, entry: &Entry) {
    if block.address == 0 {
        return;
    }
    let words = words();
    let Some(mut busy) = words.enter() else {
        return allocated_alone(block, entry, true);
    };
    control::poll();
    let Some(state) = words.state(&mut busy) else { return allocated_alone(block, entry, false) };
    let _timing = tick(state).then(Timing::start);
    if let Some(node) = node_of(state, entry) {
        log::alloc(&mut state.log, block.address, block.size, node, block.is_reallocated());
    }
}

/// Begins an event; true for the one in 64 whose time is taken, for the log too.
fn tick(state: &mut State) -> bool {
    let timed = state.tick();
    if timed {
        state.log.expire_tick();
    }
    timed
}

/// Without a state.
#[cold]
fn allocated_alone(block: &Block, entry: &Entry, interrupted: bool) {
    if let Some(node) = captured_alone(entry, interrupted) {
        log::with_shared(|log| log::alloc(log, block.address, block.size, node, block.is_reallocated()));
    }
}

/// The free of a block, whole. False, and nothing is done, when it takes a closer look: the thread has no state or
/// is inside the probe, or the block may have been recorded in another mode.
pub(super) fn releases(address: u64, caller: u64) -> bool {
    if address == 0 || index::may_hold(address) {
        return false;
    }
    let words = words();
    let Some(mut busy) = words.enter() else { return false };
    // Before the state: a forked child gives up its parent's.
    control::poll();
    let Some(state) = words.existing_state(&mut busy) else { return false };
    tick(state);
    if state.is_outside(caller) {
        log::free(&mut state.log, address);
    }
    true
}

pub(super) fn freed(address: u64) {
    write(|log| log::free(log, address));
}

/// A number for a block that `realloc` may free.
pub(super) fn freeing(address: u64) -> Option<u32> {
    write(|log| log::reserve(log, address)).flatten()
}

/// What `realloc` did with it.
pub(super) fn settled(address: u64, number: u32, is_freed: bool) {
    write(|log| log::settle(log, address, number, is_freed));
}

/// Writes to the thread's log, or to the shared one when it has none.
fn write<T>(write: impl FnOnce(&mut ThreadLog) -> T) -> Option<T> {
    let words = words();
    match words.enter().as_mut().and_then(|busy| words.state(busy)) {
        Some(state) => Some(write(&mut state.log)),
        None => log::with_shared(write),
    }
}
