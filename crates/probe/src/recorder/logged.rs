//! Log mode: every event is written down; counting is the controller's.

use super::timing::Timing;
use super::{Block, captured_alone, node_of};
use crate::arch::words;
use crate::log::{Birth, ThreadLog};
use crate::thread::State;
use crate::unwind::Entry;
use crate::{buckets, control, index, log};

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
    let _timing = tick(state).then(Timing::of_tick);
    if let Some(node) = node_of(state, entry) {
        write_alloc(state, *block, node);
    }
}

/// Writes down that a block of a known stack came.
#[inline(always)]
pub(super) fn write_alloc(state: &mut State, block: Block, node: u32) {
    let bucket = state.logged_bucket(block.size, node, block.kind_number());
    let bucket = bucket.or_else(|| state.find_logged_bucket(block, node));
    log::alloc(&mut state.log, block.address, bucket);
}

/// Begins an event; true for the one whose time is taken, for the log too.
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
        let bucket = buckets::find(&block.logged_key(node), || block.usable());
        log::with_shared(|log| log::alloc(log, block.address, bucket));
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

/// A block that `realloc` has freed.
pub(super) fn settled(address: u64, birth: Option<Birth>) {
    write(|log| log::freed(log, address, birth));
}

/// Writes to the thread's log, or to the shared one when it has none.
fn write<T>(write: impl FnOnce(&mut ThreadLog) -> T) -> Option<T> {
    let words = words();
    match words.enter().as_mut().and_then(|busy| words.state(busy)) {
        Some(state) => Some(write(&mut state.log)),
        None => log::with_shared(write),
    }
}
