//! The books: counting a block and its free, in the thread's own slab or in the shared one.

use core::sync::atomic::Ordering;

use heapwise_format::segment::{Bucket, Counter};

use super::timing::Timing;
use super::{Block, note};
use crate::arch::words;
use crate::thread::{SHARED_SLAB, State};
use crate::unwind::{self, Captured, Entry, OwnStack};
use crate::{buckets, control, dump, hooks, index, process, prof, recent, segment, tallies};

/// The rate of blocks that are all recorded.
const EVERY: u16 = 0;

/// Exact mode: every block.
#[inline(always)]
pub(super) fn allocated(block: &Block, entry: &Entry) {
    if block.address == 0 {
        return;
    }
    let words = words();
    if prof::is_silent(words) {
        return;
    }
    let Some(mut busy) = words.enter() else {
        segment::count(Counter::Reentrant);
        return allocated_alone(block, entry);
    };
    control::poll();
    match words.state(&mut busy) {
        Some(state) => allocated_by(state, block, EVERY, entry),
        None => allocated_alone(block, entry),
    }
}

/// Counts a block in the thread's slab and remembers it.
#[inline(always)]
pub(super) fn allocated_by(state: &mut State, block: &Block, rate: u16, entry: &Entry) {
    let _timing = Timing::start(state.tick());
    let captured = unwind::capture(&mut state.memo, entry, control::depth());
    note(&captured);
    let node = state.script.above(captured.node);
    let Some(kept) = state.bucket(node, block, rate) else { return };
    if !tallies::add_alloc(state.slab, kept.bucket, block.grown) {
        return;
    }
    if index::insert(block.address, kept.bucket, rate, state.now_ms) {
        recent::allocated(block.address, block.size, node, state.slab);
        state.add_allocated(kept.stands_for);
    } else {
        tallies::undo_alloc(state.slab, kept.bucket);
    }
}

/// Without a state: the thread ended, has no memory, or was interrupted inside the probe.
#[cold]
fn allocated_alone(block: &Block, entry: &Entry) {
    let captured = unwind::capture_plain(&mut OwnStack::default(), entry, control::depth());
    allocated_shared(block, EVERY, &captured);
}

/// Counts a block in the shared slab and remembers it.
pub(super) fn allocated_shared(block: &Block, rate: u16, captured: &Captured) {
    note(captured);
    let Some(bucket) = buckets::find(&block.key(captured.node, rate, 0)) else { return };
    if !tallies::add_alloc(SHARED_SLAB, bucket, block.grown) {
        return;
    }
    if !index::insert(block.address, bucket, rate, process::age_ms()) {
        return tallies::undo_alloc(SHARED_SLAB, bucket);
    }
    recent::allocated(block.address, block.size, captured.node, SHARED_SLAB);
    buckets::set_waste(bucket, hooks::usable_size(block.address as *mut _) as u64);
    let bytes = buckets::record(bucket).map_or(0, |bucket| buckets::stands_for(&bucket));
    segment::count(Counter::Recorded);
    segment::counter(Counter::AllocatedBytes).fetch_add(bytes, Ordering::Relaxed);
    let live = segment::counter(Counter::LiveBytes).fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    segment::counter(Counter::PeakBytes).fetch_max((live as i64).max(0) as u64, Ordering::Relaxed);
    dump::notice();
}

/// Counts the free of a recorded block.
#[inline(always)]
pub(super) fn freed(address: u64, number: u32, bucket: &Bucket) {
    let bytes = (bucket.period == control::period()).then(|| buckets::stands_for(bucket));
    let words = words();
    if let Some(mut busy) = words.enter() {
        let state =
            if bucket.rate == EVERY { words.state(&mut busy) } else { words.existing_state(&mut busy) };
        if let Some(state) = state {
            state.tick();
            tallies::add_free(state.slab, number);
            recent::freed(address, state.slab);
            return state.add_freed(address, bytes);
        }
    } else {
        segment::count(Counter::Reentrant);
    }
    tallies::add_free(SHARED_SLAB, number);
    recent::freed(address, SHARED_SLAB);
    if let Some(bytes) = bytes {
        segment::count(Counter::Freed);
        segment::counter(Counter::LiveBytes).fetch_sub(bytes, Ordering::Relaxed);
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
