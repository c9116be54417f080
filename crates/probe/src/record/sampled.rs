//! Sampled mode, and what is left of it when the probe is off.

use heapwise_format::segment::Counter;

use super::timing::Timing;
use super::{Block, ledger, note};
use crate::arch::words;
use crate::atomics::Ordering;
use crate::unwind::{self, Entry};
use crate::{clock, control, hooks, prof, sampler, segment};

/// Rare samples are timed one in so many.
const ONE_IN: u8 = 64;
/// Samples closer than this are worth a state of the thread: its memoised stack, its own slab.
const FINE_BYTES: u64 = 64 * 1024;

/// A countdown ran out: perhaps the block is a sample, perhaps it is only time to look at the control page.
pub(super) fn allocated(block: &Block, entry: &Entry) {
    if hooks::is_inside(entry.pc) {
        return;
    }
    let words = words();
    let Some(mut busy) = words.enter() else {
        return segment::count(Counter::Reentrant);
    };
    control::poll();
    if !sampler::take(words, block.size) {
        segment::counter(Counter::LastSeen).store(clock::coarse_ns(), Ordering::Relaxed);
        return;
    }
    if block.address == 0 || prof::is_silent(words) {
        return;
    }
    if (control::sampling_distance() < FINE_BYTES || prof::keeps_threads())
        && let Some(state) = words.state(&mut busy)
    {
        return ledger::allocated_by(state, block, control::rate(), entry);
    }
    let turn = words.slow_paths.fetch_add(1, Ordering::Relaxed);
    let _timing = turn.is_multiple_of(ONE_IN).then(|| Timing::start(ONE_IN.into()));
    let captured = unwind::capture_plain(words.own_stack(&mut busy), entry, control::depth());
    note(&captured);
    let state = words.existing_state(&mut busy);
    let node = state.map_or(captured.node, |state| state.script.above(captured.node));
    ledger::allocated_shared(block, control::rate(), node);
}
