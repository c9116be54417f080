//! What happens to an event, by what the probe is doing at the moment.

mod ledger;
mod logged;
mod quick;
mod reflexes;
mod sampled;
mod timing;

use core::ffi::c_void;

use heapwise_format::segment::{Bucket, CallKind, Counter};

pub(crate) use reflexes::{ON_ALLOCATED, ON_RELEASING, learn};

use crate::arch::words;
use crate::buckets::Key;
use crate::control::Activity;
use crate::log::Birth;
use crate::thread::{Alike, SHARED_SLAB, State};
use crate::unwind::{self, Captured, Entry, OwnStack};
use crate::{arena, control, family, hooks, index, log, process, segment};

type Pointer = *mut c_void;

/// After an allocation that a reflex left: called by the stubs with what the real function returned, which it returns.
pub(crate) extern "C" fn recorded(
    block: Pointer,
    size: usize,
    kind: u32,
    pc: u64,
    sp: u64,
    fp: u64,
) -> Pointer {
    allocated(block, size, kind, &Entry { pc, sp, fp })
}

/// After an allocation by one of the longer hooks; returns the block.
pub(crate) fn allocated(block: Pointer, size: usize, kind: u32, entry: &Entry) -> Pointer {
    record(Block { address: block as u64, size: size as u64, kind, grown: 0 }, entry);
    block
}

/// After a `realloc` that added `grown` bytes to the block it was given.
pub(crate) fn reallocated(block: Pointer, size: usize, grown: u64, entry: &Entry) {
    record(Block { address: block as u64, size: size as u64, kind: CallKind::Realloc as u32, grown }, entry);
}

#[inline(always)]
fn record(block: Block, entry: &Entry) {
    let words = words();
    if block.address != 0
        && let Some(mut busy) = words.enter()
        && let Some(state) = words.existing_state(&mut busy)
        && quick::allocated(state, block, entry)
    {
        return;
    }
    record_slowly(block.address, block.size, block.kind, block.grown, entry);
}

/// With a block in pieces, so that none need be stored on the quick way.
#[inline(never)]
fn record_slowly(address: u64, size: u64, kind: u32, grown: u64, entry: &Entry) {
    let block = Block { address, size, kind, grown };
    match control::activity() {
        Activity::Idle | Activity::Sampling => sampled::allocated(&block, entry),
        Activity::Exact => ledger::allocated(&block, entry),
        Activity::Log => logged::allocated(&block, entry),
    }
}

/// A block that was just allocated.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// A [`CallKind`], which only the slow ways have to make sense of.
    kind: u32,
    /// Bytes added by `realloc`.
    grown: u64,
}

impl Block {
    fn kind(&self) -> CallKind {
        CallKind::from_number(self.kind as u16)
    }

    /// Bytes that the allocator gave to it.
    pub(crate) fn usable(&self) -> u64 {
        hooks::usable_size(self.address as Pointer) as u64
    }

    /// The number of its [`CallKind`].
    #[inline(always)]
    pub(crate) fn kind_number(&self) -> u32 {
        self.kind
    }

    /// What blocks that are counted with it have in common.
    #[inline(always)]
    pub(crate) fn alike(&self, node: u32, rate: u16) -> Alike {
        Alike::new(self.size, node, self.kind as u16, rate)
    }

    /// What it is counted under.
    pub(crate) fn key(&self, node: u32, rate: u16, owner: u8) -> Key {
        Key { size: self.size, node, rate, kind: self.kind(), owner, period: control::period() }
    }

    /// What it is written down under: whoever allocated it, events say by themselves.
    pub(crate) fn logged_key(&self, node: u32) -> Key {
        let (rate, owner, period) = (ledger::EVERY, SHARED_SLAB as u8, Bucket::LOGGED);
        Key { size: self.size, node, rate, kind: self.kind(), owner, period }
    }
}

/// Before a block is freed, when no reflex does it: called by the stubs; returns what is to be freed.
pub(crate) extern "C" fn releasing(block: Pointer, caller: u64) -> Pointer {
    let words = words();
    if let Some(mut busy) = words.enter()
        && let Some(state) = words.existing_state(&mut busy)
        && quick::releases(state, block as u64, caller)
    {
        return block;
    }
    releasing_slowly(block, caller)
}

#[inline(never)]
fn releasing_slowly(block: Pointer, caller: u64) -> Pointer {
    if block.is_null() || arena::holds(block) {
        return core::ptr::null_mut();
    }
    let done = match control::activity() {
        Activity::Exact => ledger::releases(block as u64, caller),
        Activity::Log => logged::releases(block as u64, caller),
        Activity::Idle | Activity::Sampling => false,
    };
    if !done {
        released(take_as(block, caller, Freeing::Certain));
    }
    block
}

/// Whether a taken block will be freed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freeing {
    /// By `free`.
    Certain,
    /// By `realloc`, unless that fails.
    Likely,
}

/// A block taken out of the index.
#[must_use]
pub(crate) struct Taken {
    address: u64,
    /// Number and record of its bucket, when it was recorded.
    bucket: Option<(u32, Bucket)>,
    /// What the log knew of it, when that is to be told what becomes of it.
    logged: Option<Logged>,
}

/// `None` for a block that was never seen to come.
type Logged = Option<Birth>;

/// Takes a block out of the index, before the real function can give its address to another thread.
pub(crate) fn take(block: Pointer, caller: u64) -> Taken {
    take_as(block, caller, Freeing::Likely)
}

fn take_as(block: Pointer, caller: u64, freeing: Freeing) -> Taken {
    let address = block as u64;
    if block.is_null() || hooks::is_inside(caller) {
        return Taken { address, bucket: None, logged: None };
    }
    {
        let words = words();
        match words.enter() {
            // Inside, because a forked child gives up its parent's state here.
            Some(_busy) => control::poll(),
            None if family::is_forked_child() => return Taken { address, bucket: None, logged: None },
            None => {}
        }
    }
    let activity = control::activity();
    let logged = match (activity, freeing) {
        (Activity::Log, Freeing::Likely) => Some(log::take(address)),
        (Activity::Log, Freeing::Certain) => {
            logged::freed(address);
            None
        }
        _ => None,
    };
    let bucket = index::remove(address);
    if bucket.is_none() && activity == Activity::Exact {
        ledger::unknown_free(address);
    }
    Taken { address, bucket, logged }
}

/// Counts the free of a taken block; its size, 0 when unknown.
pub(crate) fn released(taken: Taken) -> u64 {
    if let Some(birth) = taken.logged {
        logged::settled(taken.address, birth);
    }
    let Some((number, bucket)) = taken.bucket else { return 0 };
    ledger::freed(taken.address, number, &bucket);
    bucket.size
}

/// The real `realloc` failed: the block is still there.
pub(crate) fn put_back(taken: Taken) {
    if let Some((number, bucket)) = taken.bucket {
        index::insert(taken.address, bucket.size, number, bucket.rate, process::age_ms());
    }
    if let Some(Some(birth)) = taken.logged {
        log::put_back(taken.address, birth);
    }
}

/// The node of the stack of an event; `None` when the call is part of another one.
#[inline(always)]
fn node_of(state: &mut State, entry: &Entry) -> Option<u32> {
    let native = match unwind::familiar(&state.memo, *entry) {
        Some(node) => node,
        None => captured(state, entry)?,
    };
    Some(state.script.above(native))
}

/// The node of a native stack that is not the last one. What was recorded before did not come from inside, so only
/// here that has to be asked.
#[inline(never)]
fn captured(state: &mut State, entry: &Entry) -> Option<u32> {
    if hooks::is_inside(entry.pc) {
        return None;
    }
    let captured = unwind::capture(&mut state.memo, entry, control::depth());
    note(&captured);
    Some(captured.node)
}

/// The node of the stack of an event on a thread without a state: it ended, has no memory, or was interrupted inside
/// the probe. `None` when the call is part of another one.
#[cold]
#[inline(never)]
fn captured_alone(entry: &Entry, interrupted: bool) -> Option<u32> {
    // A forked child that was interrupted on its way to a segment of its own has only its parent's.
    if hooks::is_inside(entry.pc) || family::is_forked_child() {
        return None;
    }
    if interrupted {
        segment::count(Counter::Reentrant);
    }
    let captured = unwind::capture_plain(&mut OwnStack::default(), entry, control::depth());
    note(&captured);
    Some(captured.node)
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
