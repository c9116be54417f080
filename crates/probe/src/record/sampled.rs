//! Sampled mode, and the control polling that continues while the probe is off.

use heapwise_format::segment::Counter;

use super::{Block, note, sampler, slow_path};
use crate::arch::words;
use crate::atomics::Ordering;
use crate::control::Activity;
use crate::unwind;
use crate::unwind::Entry;
use crate::{clock, control, hooks, prof, segment};

/// At smaller distances a thread gets a state: its memoized stack, its own tallies.
const FINE_BYTES: u64 = 64 * 1024;

/// The countdown of a thread ran out: the block may be a sample, or it is time to poll the control
/// words.
pub(super) fn allocated(block: &Block, entry: &Entry) {
    if hooks::is_nested_call(entry.pc) {
        return;
    }
    let words = words();
    let Some(mut busy) = words.enter() else {
        return segment::count(Counter::Reentrant);
    };
    control::poll();
    control::check_leases();
    // The order to record every block arrived with this event.
    if matches!(control::activity(), Activity::Exact | Activity::Log) && block.address != 0 {
        drop(busy);
        return slow_path::allocated(block, entry);
    }
    if !sampler::take(words, block.size) {
        segment::counter(Counter::LastSeen).store(clock::coarse_ns(), Ordering::Relaxed);
        return;
    }
    if block.address == 0 || prof::is_silent(words) {
        return;
    }
    let rate = control::rate();
    if (control::sampling_distance() < FINE_BYTES || prof::keeps_threads())
        && let Some(state) = words.state(&mut busy)
    {
        state.begin_event();
        if let Some(tally) = slow_path::site(state, entry, rate) {
            slow_path::count_alloc(Some(state), tally, block);
        }
        return;
    }
    let captured = unwind::capture_plain(words.own_stack(&mut busy), entry, control::depth());
    note(&captured);
    let state = words.existing_state(&mut busy);
    let node = state.map_or(captured.node, |state| state.declared.above(captured.node));
    if let Some(tally) = slow_path::shared_tally(node, rate) {
        slow_path::count_alloc(None, tally, block);
    }
}
