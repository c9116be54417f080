//! Sampled mode, and the control polling that continues while the probe is off.

use heapwise_format::segment::Counter;

use super::fast_path::{self, Counted};
use super::sampler::{self, Sampled};
use super::usable::{Family, Regular};
use super::{Block, Pointer, capture_shared, note_broken, releasing, slow_path};
use crate::arch::{prefetch_write, words};
use crate::atomics::Ordering;
use crate::inside::{Fast, Inside, fast_for_samples};
use crate::live::{self, filter};
use crate::runtimes::{self, python};
use crate::session::Session;
use crate::sites::rates::Rate;
use crate::sites::tallies::{Amount, TallyRef, Writer};
use crate::threads::State;
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
        slow_path::count(session, state, block, entry, rate.number());
        return;
    }
    control::check_leases(inside);
    let captured = capture_shared(inside, entry);
    if let Some(tally) = slow_path::shared_tally(inside, captured.name, rate.number()) {
        note_broken(&inside.segment, captured.broken, tally);
        slow_path::count_alloc(inside, None, tally, block);
    }
}

/// After an allocation for which the countdown ran out, where samples are in the shadow index. The
/// usual sample has a cached stack, with frames of a language runtime in it (`WOVEN`) or without;
/// every other event is declined.
pub(super) extern "C" fn allocated_fast<const WOVEN: bool>(
    block: Pointer,
    size: usize,
    pc: u64,
    sp: u64,
    fp: u64,
) -> Counted {
    let (address, entry) = (block as u64, Entry { pc, sp, fp });
    Counted::of(fast_for_samples(|fast| count_alloc::<WOVEN>(fast, address, size as u64, entry)))
}

/// Counts a sample; returns whether the thread's sums are to be flushed. `None`: nothing was
/// counted.
#[inline(always)]
fn count_alloc<const WOVEN: bool>(fast: Fast<'_>, address: u64, size: u64, entry: Entry) -> Option<bool> {
    let Fast { session, state } = fast;
    let rate = sampler::sampled_rate(&session.control, words(), size)?;
    let cell = session.live.shadow.known(address)?.pair()?;
    let bytes = size as usize;
    let tally = match WOVEN {
        true => woven_tally(session, state, entry, bytes)?,
        false => state.stacks.find(entry)?.tally_of(bytes)?,
    };
    let Regular { slack, .. } = session.slack.regular(size, Family::LINKED)?;
    let is_plain = cell.is_empty() && (session.live.shadow.has_min_chunk_32() || live::is_large(size));
    let is_of_rate = tally.counts.site().rate() == rate.number();
    if !is_plain || !is_of_rate || !tally.counts.is_current(session.peak.now()) || !state.fast_budget() {
        return None;
    }
    cell.put(tally.number, size as u32);
    // Before what takes long to compute: an atomic operation waits for all before it.
    filter::add(address);
    sampler::start(&session.control, words(), rate);
    let sampled = Sampled::new(size, rate.distance());
    tally.add_own_sample(session, Amount { size, slack }, sampled);
    state.histogram().count_alloc(Writer::Own, size, sampled.whole_blocks(address));
    Some(state.add_allocated(sampled.bytes(size)))
}

/// The tally of a cached stack with frames of a language runtime in it.
#[inline(always)]
fn woven_tally(session: &Session, state: &mut State, entry: Entry, size: usize) -> Option<TallyRef> {
    let State { stacks, script, .. } = state;
    let at_once = match python::finds_frames_at_once() {
        true => runtimes::tally_at_once(stacks, script, entry, size),
        false => None,
    };
    at_once.or_else(|| runtimes::cached_tally(session, stacks, script, entry, size))
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
