//! Exact and log mode: every block.

use heapwise_format::segment::{Bucket, Counter};

use super::timing::Timing;
use super::{Block, note};
use crate::arch::words;
use crate::thread::{SHARED_SLAB, State};
use crate::unwind::{self, Entry, OwnStack};
use crate::{buckets, control, index, log, process, segment, tallies};
use core::sync::atomic::Ordering;

/// Counts a block and remembers it.
#[inline(always)]
pub(super) fn allocated(block: &Block, entry: &Entry) {
    if block.address == 0 {
        return;
    }
    let words = words();
    let Some(busy) = words.enter() else {
        segment::count(Counter::Reentrant);
        return allocated_shared(block, entry);
    };
    control::poll();
    match words.state(&busy) {
        Some(state) => allocated_by(state, block, entry),
        None => allocated_shared(block, entry),
    }
}

#[inline(always)]
fn allocated_by(state: &mut State, block: &Block, entry: &Entry) {
    let _timing = Timing::start(state.tick());
    let captured = unwind::capture(&mut state.memo, entry, control::depth());
    note(&captured);
    let Some(bucket) = state.bucket(captured.node, block.size, block.kind, block.address) else { return };
    if !tallies::add_alloc(state.slab, bucket, block.grown) {
        return;
    }
    if index::insert_exact(block.address, bucket, state.now_ms) {
        state.add_allocated(block.size);
    } else {
        tallies::undo_alloc(state.slab, bucket);
    }
}

/// The same without a state of the thread: it ended, has no memory, or was interrupted inside the probe.
#[cold]
fn allocated_shared(block: &Block, entry: &Entry) {
    let captured = unwind::capture_plain(&mut OwnStack::default(), entry, control::depth());
    note(&captured);
    let key = buckets::Key {
        size: block.size,
        node: captured.node,
        rate: 0,
        kind: block.kind,
        period: control::period(),
    };
    let Some(bucket) = buckets::find(&key) else { return };
    if !tallies::add_alloc(SHARED_SLAB, bucket, block.grown) {
        return;
    }
    if !index::insert_exact(block.address, bucket, process::age_ms()) {
        return tallies::undo_alloc(SHARED_SLAB, bucket);
    }
    segment::count(Counter::Recorded);
    segment::counter(Counter::AllocatedBytes).fetch_add(block.size, Ordering::Relaxed);
    segment::counter(Counter::LiveBytes).fetch_add(block.size, Ordering::Relaxed);
}

/// A block of exact mode was freed.
#[inline(always)]
pub(super) fn freed(address: u64, number: u32, bucket: &Bucket) {
    let words = words();
    if let Some(busy) = words.enter() {
        if let Some(state) = words.state(&busy) {
            state.tick();
            tallies::add_free(state.slab, number);
            state.add_freed(
                address,
                if bucket.period == control::period() { Some(bucket.size) } else { None },
            );
            return;
        }
    } else {
        segment::count(Counter::Reentrant);
    }
    tallies::add_free(SHARED_SLAB, number);
    if bucket.period == control::period() {
        segment::count(Counter::Freed);
        segment::counter(Counter::LiveBytes).fetch_sub(bucket.size, Ordering::Relaxed);
    }
}

/// A block nobody remembers was freed: allocated before exact mode began, or by a way that is not hooked.
pub(super) fn unknown_free(address: u64) {
    let words = words();
    match words.enter().as_ref().and_then(|busy| words.state(busy)) {
        Some(state) => state.add_unknown(address),
        None => segment::count(Counter::UnknownFrees),
    }
}

/// Writes a block down.
pub(super) fn logged(block: &Block, entry: &Entry) {
    if block.address == 0 {
        return;
    }
    let words = words();
    let Some(busy) = words.enter() else {
        segment::count(Counter::Reentrant);
        segment::count(Counter::LostEvents);
        return;
    };
    control::poll();
    let Some(state) = words.state(&busy) else {
        segment::count(Counter::LostEvents);
        return;
    };
    let _timing = Timing::start(state.tick());
    let captured = unwind::capture(&mut state.memo, entry, control::depth());
    note(&captured);
    log::alloc(&mut state.log, block.address, block.size, captured.node, block.kind);
}
