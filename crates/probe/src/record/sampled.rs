//! Sampled mode, and the control polling that continues while the probe is off.

use heapwise_format::segment::Counter;

use super::usable::{Family, Regular};
use super::{Block, Pointer, capture_shared, fast_path, note_broken, releasing, sampler, slow_path};
use crate::arch::prefetch_write;
use crate::atomics::Ordering;
use crate::inside::{Fast, Inside, fast_for_samples};
use crate::live::filter;
use crate::sites::rates::Rate;
use crate::sites::tallies::{Amount, Writer};
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
    let Some(rate) = take(inside, block.size) else { return control::check_leases(inside) };
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
    control::check_leases(inside);
    let captured = capture_shared(inside, entry);
    if let Some(tally) = slow_path::shared_tally(inside, captured.name, rate.number()) {
        note_broken(&inside.segment, captured.broken, tally);
        slow_path::count_alloc(inside, None, tally, block);
    }
}

/// Before a block is freed that the filter lets through, where samples are in the shadow index.
/// Frees that need more than their own words of the index go to the slow path.
pub(super) extern "C" fn freed(block: Pointer, caller: u64) -> Pointer {
    prefetch_write(block.wrapping_byte_sub(16));
    match fast_for_samples(|fast| count_free(fast, block as u64, caller)) {
        Some(false) => block,
        Some(true) => fast_path::flush(block),
        None => releasing(block, caller),
    }
}

/// Counts a free, if it is one of a sample; returns whether the thread's sums are to be flushed.
/// `None`: nothing was counted.
#[inline(always)]
fn count_free(fast: Fast<'_>, address: u64, caller: u64) -> Option<bool> {
    let Fast { session, state } = fast;
    let cell = session.live.shadow.known(address)?.pair()?;
    let Some(block) = cell.get() else {
        let is_unknown = cell.is_empty() && !session.live.is_hash_used();
        return is_unknown.then_some(false);
    };
    let tally = state.own_sampled_tally(block.tally)?;
    let Regular { slack, .. } = session.slack.regular(block.size, Family::LINKED)?;
    if !state.is_known_outside(caller) || !tally.counts.is_current(session.peak.now()) || !state.fast_budget()
    {
        return None;
    }
    cell.clear(block.size);
    filter::remove(address);
    let sampled = tally.sampled(session, block.size);
    tally.count_free(session, Writer::Own, Amount { size: block.size, slack }, sampled);
    state.histogram().count_free(Writer::Own, block.size, sampled.whole_blocks(address));
    Some(state.add_freed(address, sampled.bytes(block.size)))
}
