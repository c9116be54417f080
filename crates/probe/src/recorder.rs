//! What happens to an event, by what the probe is doing at the moment.

mod exact;
mod sampled;
mod timing;

use core::ffi::c_void;

use heapwise_format::segment::{CallKind, Counter};

use crate::arch::words;
use crate::control::Activity;
use crate::unwind::{Captured, Entry};
use crate::{arena, buckets, control, hooks, index, log, process, segment};

type Pointer = *mut c_void;

/// After an allocation: called by the stubs with what the real function returned, which it returns.
pub(crate) extern "C" fn allocated(block: Pointer, size: usize, kind: u32, entry: &Entry) -> Pointer {
    let kind = match kind {
        1 => CallKind::Calloc,
        2 => CallKind::Realloc,
        3 => CallKind::Aligned,
        4 => CallKind::New,
        _ => CallKind::Malloc,
    };
    record(block, size as u64, kind, 0, entry);
    block
}

/// After a `realloc` that added `grown` bytes to the block it was given.
pub(crate) fn reallocated(block: Pointer, size: usize, grown: u64, entry: &Entry) {
    record(block, size as u64, CallKind::Realloc, grown, entry);
}

#[inline(always)]
fn record(block: Pointer, size: u64, kind: CallKind, grown: u64, entry: &Entry) {
    if hooks::is_inside(entry.pc) {
        return;
    }
    let block = Block { address: block as u64, size, kind, grown };
    match control::activity() {
        Activity::Idle | Activity::Sampling => sampled::allocated(&block, entry),
        Activity::Exact => exact::allocated(&block, entry),
        Activity::Log => exact::logged(&block, entry),
    }
}

/// A block that was just allocated.
struct Block {
    address: u64,
    size: u64,
    kind: CallKind,
    grown: u64,
}

/// Before a block is freed: called by the stubs; returns what is to be freed.
pub(crate) extern "C" fn releasing(block: Pointer, caller: u64) -> Pointer {
    if arena::holds(block) {
        return core::ptr::null_mut();
    }
    released(take(block, caller));
    block
}

/// A block taken out of the index; bucket 0: nobody's.
#[must_use]
pub(crate) struct Taken {
    address: u64,
    bucket: u32,
    log: bool,
}

/// Takes a block out of the index, before the real function can give its address to another thread.
#[inline(always)]
pub(crate) fn take(block: Pointer, caller: u64) -> Taken {
    let words = words();
    if block.is_null() || hooks::is_inside(caller) {
        return Taken { address: 0, bucket: 0, log: false };
    }
    control::poll();
    let activity = control::activity();
    let log = activity == Activity::Log;
    if log {
        match words.enter() {
            Some(busy) => match words.state(&busy) {
                Some(state) => log::free(&mut state.log, block as u64),
                None => segment::count(Counter::LostEvents),
            },
            None => segment::count(Counter::LostEvents),
        }
    }
    let bucket = index::remove(block as u64).unwrap_or(0);
    if bucket == 0 && activity == Activity::Exact {
        exact::unknown_free(block as u64);
    }
    Taken { address: block as u64, bucket, log }
}

/// Counts the free of a taken block; its size, 0 when unknown.
#[inline(always)]
pub(crate) fn released(taken: Taken) -> u64 {
    if taken.bucket == 0 {
        return 0;
    }
    let Some(bucket) = buckets::record(taken.bucket) else { return 0 };
    if bucket.rate == 0 {
        exact::freed(taken.address, taken.bucket, &bucket);
    } else {
        sampled::freed(taken.bucket, &bucket);
    }
    bucket.size
}

/// The real `realloc` failed: the block is still there.
pub(crate) fn put_back(block: Pointer, taken: Taken, entry: &Entry) {
    if taken.bucket != 0 {
        index::restore(block as u64, taken.bucket, process::age_ms());
    }
    if taken.log {
        let size = crate::hooks::usable_size(block) as u64;
        exact::logged(&Block { address: block as u64, size, kind: CallKind::Realloc, grown: 0 }, entry);
    }
}

/// Counts how a stack ended.
#[inline(always)]
fn note(captured: &Captured) {
    if captured.truncated {
        segment::count(Counter::Truncated);
    }
    if captured.broken {
        segment::count(Counter::Broken);
    }
}
