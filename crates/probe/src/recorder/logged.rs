//! Log mode: every event is written down; pairing and counting are the controller's.

use heapwise_format::segment::Counter;

use super::timing::Timing;
use super::{Block, note};
use crate::arch::words;
use crate::unwind::{self, Entry};
use crate::{control, log, segment};

pub(super) fn allocated(block: &Block, entry: &Entry) {
    if block.address == 0 {
        return;
    }
    let words = words();
    let Some(mut busy) = words.enter() else {
        segment::count(Counter::Reentrant);
        return segment::count(Counter::LostEvents);
    };
    control::poll();
    let Some(state) = words.state(&mut busy) else { return segment::count(Counter::LostEvents) };
    let _timing = Timing::start(state.tick());
    let captured = unwind::capture(&mut state.memo, entry, control::depth());
    note(&captured);
    let node = state.script.above(captured.node);
    log::alloc(&mut state.log, block.address, block.size, node, block.kind);
}

pub(super) fn freed(address: u64) {
    let words = words();
    match words.enter().as_mut().and_then(|busy| words.state(busy)) {
        Some(state) => log::free(&mut state.log, address),
        None => segment::count(Counter::LostEvents),
    }
}
