//! Sampled mode, and the control polling that continues while the probe is off.

use heapwise_format::segment::Counter;

use super::{Block, capture_shared, note_broken, sampler, slow_path};
use crate::atomics::Ordering;
use crate::inside::Inside;
use crate::sites::rates::Rate;
use crate::unwind::Entry;
use crate::{clock, control, hooks};

/// At smaller distances a thread gets a state: its memoized stack, its own tallies.
const FINE_BYTES: u64 = 64 * 1024;

/// The countdown of a thread ran out while nothing is recorded.
pub(super) fn poll(inside: &Inside, size: u64) {
    control::check_leases(inside);
    take(inside, size);
}

/// Counts `size` bytes; the rate that they are a sample of, if they are one.
fn take(inside: &Inside, size: u64) -> Option<Rate> {
    let rate = sampler::take(&inside.control, inside.words(), size);
    if rate.is_none() {
        inside.segment.counter(Counter::LastSeen).store(clock::coarse_ns(), Ordering::Relaxed);
    }
    rate
}

/// The countdown of a thread ran out: the block may be a sample, or it is time to poll the control
/// words.
pub(super) fn allocated(inside: &mut Inside, block: &Block, entry: &Entry) {
    if hooks::is_nested_call(entry.pc) {
        return;
    }
    control::check_leases(inside);
    let Some(rate) = take(inside, block.size) else { return };
    if block.address == 0 || inside.prof.is_silent(inside.words()) {
        return;
    }
    if (rate.distance() < FINE_BYTES || inside.prof.keeps_threads())
        && let (session, Some(state)) = inside.with_state()
    {
        state.begin_event(session);
        if let Some((tally, _)) = slow_path::site(session, state, entry, rate.number(), false) {
            slow_path::count_alloc(session, Some(state), tally, block);
        }
        return;
    }
    let captured = capture_shared(inside, entry);
    if let Some(tally) = slow_path::shared_tally(inside, captured.name, rate.number()) {
        note_broken(&inside.segment, captured.broken, tally);
        slow_path::count_alloc(inside, None, tally, block);
    }
}
