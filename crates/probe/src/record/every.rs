//! The books: counting a block and its free, in the thread's own slab or in the shared one.

use heapwise_format::segment::{Bucket, Counter};

use super::timing::Timing;
use super::{Block, captured_alone, node_of};
use crate::arch::words;
use crate::atomics::Ordering;
use crate::thread::{Kept, SHARED_SLAB, State};
use crate::unwind::Entry;
use crate::{buckets, control, dump, index, process, prof, recent, segment, tallies};

/// The rate of blocks that are all recorded.
pub(super) const EVERY: u16 = 0;

/// Exact mode: every block.
pub(super) fn allocated(block: &Block, entry: &Entry) {
    let words = words();
    if block.address == 0 || prof::is_silent(words) {
        return;
    }
    let Some(mut busy) = words.enter() else {
        return allocated_alone(block, entry, true);
    };
    control::poll();
    match words.state(&mut busy) {
        Some(state) => allocated_by(state, block, EVERY, entry),
        None => allocated_alone(block, entry, false),
    }
}

/// Counts a block in the thread's slab and remembers it.
#[inline(always)]
pub(super) fn allocated_by(state: &mut State, block: &Block, rate: u16, entry: &Entry) {
    let _timing = state.tick().then(Timing::of_tick);
    if let Some(node) = node_of(state, entry) {
        enter(state, block, rate, node);
    }
}

/// Counts a block of a known stack.
fn enter(state: &mut State, block: &Block, rate: u16, node: u32) {
    if let Some(kept) = state.bucket(node, block, rate) {
        enter_under(state, block, rate, kept, node);
    }
}

/// Counts a block of a known bucket.
#[inline(never)]
pub(super) fn enter_under(state: &mut State, block: &Block, rate: u16, kept: Kept, node: u32) {
    state.slab.add_alloc(kept.counts, block.grown);
    if index::insert(block.address, block.size, kept.bucket, rate, state.now_ms) {
        recent::allocated(block.address, block.size, node, state.slab.number());
        if state.add_allocated(kept.stands_for()) {
            state.flush();
        }
    } else {
        state.slab.undo_alloc(kept.counts);
    }
}

/// Without a state.
#[cold]
fn allocated_alone(block: &Block, entry: &Entry, interrupted: bool) {
    if let Some(node) = captured_alone(entry, interrupted) {
        allocated_shared(block, EVERY, node);
    }
}

/// Counts a block in the shared slab and remembers it.
pub(super) fn allocated_shared(block: &Block, rate: u16, node: u32) {
    let Some(bucket) = buckets::find(&block.key(node, rate, 0), || block.usable()) else { return };
    let Some((slab, counts)) = tallies::add_alloc_shared(bucket, block.grown) else { return };
    if !index::insert(block.address, block.size, bucket, rate, process::age_ms()) {
        return slab.undo_alloc(counts);
    }
    recent::allocated(block.address, block.size, node, SHARED_SLAB);
    let bytes = buckets::record(bucket).map_or(0, |bucket| buckets::stands_for(&bucket));
    segment::count(Counter::Recorded);
    segment::counter(Counter::AllocatedBytes).fetch_add(bytes, Ordering::Relaxed);
    let live = segment::counter(Counter::LiveBytes).fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    segment::counter(Counter::PeakBytes).fetch_max((live as i64).max(0) as u64, Ordering::Relaxed);
    dump::notice();
}

/// Exact mode: the free of a block, whole. False, and nothing is done, when it takes a closer look: the thread
/// has no state or is inside the probe, or nobody remembers the block.
pub(super) fn releases(address: u64, caller: u64) -> bool {
    let words = words();
    let Some(mut busy) = words.enter() else { return false };
    // Before the state: a forked child gives up its parent's.
    control::poll();
    let Some(state) = words.existing_state(&mut busy) else { return false };
    if !state.is_outside(caller) {
        return true;
    }
    let Some((number, bucket)) = index::remove(address) else { return false };
    free_in(state, address, number, &bucket);
    true
}

/// Counts the free of a block that was taken out of the index.
#[inline(never)]
pub(super) fn release(state: &mut State, address: u64, number: u32) {
    if let Some(bucket) = buckets::record(number) {
        count_free(state, address, number, &bucket);
    }
}

#[inline(always)]
fn free_in(state: &mut State, address: u64, number: u32, bucket: &Bucket) {
    state.tick();
    count_free(state, address, number, bucket);
}

fn count_free(state: &mut State, address: u64, number: u32, bucket: &Bucket) {
    let counts = state.slab.add_free(number);
    recent::freed(address, state.slab.number());
    if bucket.period != control::period() {
        return state.add_old_freed(address);
    }
    if let Some(counts) = counts {
        state.remember_freed(number, counts, bucket.stands_for);
    }
    if state.add_freed(address, buckets::stands_for(bucket)) {
        state.flush();
    }
}

/// Counts the free of a recorded block.
pub(super) fn freed(address: u64, number: u32, bucket: &Bucket) {
    let words = words();
    if let Some(mut busy) = words.enter() {
        let state =
            if bucket.rate == EVERY { words.state(&mut busy) } else { words.existing_state(&mut busy) };
        if let Some(state) = state {
            return free_in(state, address, number, bucket);
        }
    } else {
        segment::count(Counter::Reentrant);
    }
    tallies::add_free_shared(number);
    recent::freed(address, SHARED_SLAB);
    if bucket.period == control::period() {
        segment::count(Counter::Freed);
        segment::counter(Counter::LiveBytes).fetch_sub(buckets::stands_for(bucket), Ordering::Relaxed);
    }
}

/// A block nobody remembers was freed: allocated before exact mode began, or by a way that is not hooked.
pub(super) fn unknown_free(address: u64) {
    let words = words();
    match words.enter().as_mut().and_then(|busy| words.state(busy)) {
        Some(state) => state.add_unknown(address),
        None => segment::count(Counter::UnknownFrees),
    }
}
