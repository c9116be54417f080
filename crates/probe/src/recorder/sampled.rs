//! Sampled mode, and what is left of it when the probe is off.

use core::sync::atomic::Ordering;

use heapwise_format::segment::{Bucket, Counter};

use super::timing::Timing;
use super::{Block, note};
use crate::arch::words;
use crate::thread::SHARED_SLAB;
use crate::unwind::{self, Captured, Entry};
use crate::{buckets, clock, control, hooks, index, process, rates, sampler, segment, tallies};

/// A countdown ran out: perhaps the block is a sample, perhaps it is only time to look at the control page.
pub(super) fn allocated(block: &Block, entry: &Entry) {
    let words = words();
    let Some(mut busy) = words.enter() else {
        segment::count(Counter::Reentrant);
        return;
    };
    control::poll();
    let is_sample = sampler::take(words, block.size);
    segment::counter(Counter::LastSeen).store(clock::coarse_ns(), Ordering::Relaxed);
    if !is_sample || block.address == 0 {
        return;
    }
    let turn = words.slow_paths.fetch_add(1, Ordering::Relaxed);
    let _timing = Timing::start(turn % 64 == 0);
    sample(block, &unwind::capture_plain(words.own_stack(&mut busy), entry, control::depth()));
}

fn sample(block: &Block, captured: &Captured) {
    note(captured);
    let rate = control::rate();
    let key = buckets::Key {
        size: block.size,
        node: captured.node,
        rate,
        kind: block.kind,
        period: control::period(),
    };
    let Some(bucket) = buckets::find(&key) else { return };
    if !tallies::add_alloc(SHARED_SLAB, bucket, block.grown) {
        return;
    }
    if !index::insert_sample(block.address, bucket, process::age_ms()) {
        tallies::undo_alloc(SHARED_SLAB, bucket);
        return;
    }
    let usable = hooks::usable_size(block.address as *mut _) as u64;
    buckets::set_waste(bucket, usable.saturating_sub(block.size));
    segment::count(Counter::Recorded);
    let bytes = sampler::weighted_bytes(block.size, rates::of(rate));
    segment::counter(Counter::AllocatedBytes).fetch_add(bytes, Ordering::Relaxed);
    let live = segment::counter(Counter::LiveBytes).fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    segment::counter(Counter::PeakBytes).fetch_max((live as i64).max(0) as u64, Ordering::Relaxed);
}

/// A sample was freed.
pub(super) fn freed(number: u32, bucket: &Bucket) {
    tallies::add_free(SHARED_SLAB, number);
    if bucket.period == control::period() {
        segment::count(Counter::Freed);
        let bytes = sampler::weighted_bytes(bucket.size, rates::of(bucket.rate));
        segment::counter(Counter::LiveBytes).fetch_sub(bytes, Ordering::Relaxed);
    }
}
