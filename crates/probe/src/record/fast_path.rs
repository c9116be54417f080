//! The fast path of exact and log mode: called by the stubs, one leaf function per event.
//!
//! An event takes it when its stack is a cached one, its tally is current and its words of the
//! shadow index are simple; every other event goes to the slow path. The fast path has no side
//! effects until it commits, so the slow path starts with an event that nothing has happened to.

#![allow(unsafe_code)]

use core::hint::black_box;
use core::ptr::null_mut;

use heapwise_format::event::Block;

use super::usable::{Family, Regular, Source, measured};
use super::{Pointer, in_arena, releasing, sampled};
use crate::arch::prefetch_write;
use crate::atomics::{AtomicPtr, Ordering};
use crate::control::Activity;
#[cfg(target_arch = "x86_64")]
use crate::hooks::entry_points::Call;
use crate::inside::{Fast, enter, fast};
use crate::live::{self, Live, alloc_times};
use crate::session::Session;
use crate::sites::tallies::{Amount, TallyRef};
use crate::threads::State;
use crate::unwind::Entry;
use crate::{log, runtimes};

/// After an allocation: block, size, and the [`Entry`] in pieces.
pub(super) type Allocated = extern "C" fn(Pointer, usize, u64, u64, u64) -> Counted;
/// Before a free: block and caller. Returns what is to be freed.
pub(super) type Releasing = extern "C" fn(Pointer, u64) -> Pointer;

/// The fast path of the mode in force, an [`Allocated`]. Any value is safe: each function re-checks
/// the generation.
pub(crate) static ON_ALLOCATED: AtomicPtr<()> = AtomicPtr::new(decline as Allocated as *mut ());
/// The fast path of a free in the mode in force, a [`Releasing`].
pub(crate) static ON_RELEASING: AtomicPtr<()> = AtomicPtr::new(releasing as Releasing as *mut ());

/// Chooses the fast path for a mode.
pub(crate) fn choose(session: &Session, activity: Activity) {
    let min_chunk_32 = session.live.shadow.has_min_chunk_32();
    let functions = match (activity, min_chunk_32) {
        (Activity::Exact, true) => functions::<false, true>(),
        (Activity::Exact, false) => functions::<false, false>(),
        (Activity::Log, true) => functions::<true, true>(),
        (Activity::Log, false) => functions::<true, false>(),
        (Activity::Sampling, _) if session.live.are_samples_shadowed() => Functions {
            allocated: match runtimes::are_present() {
                true => sampled::allocated_fast::<true>,
                false => sampled::allocated_fast::<false>,
            },
            freed: sampled::freed,
            allocated_in_arena: in_arena::allocated_sampled,
            ..DECLINING
        },
        (Activity::Idle | Activity::Sampling, _) => DECLINING,
    };
    ON_ALLOCATED.store(functions.allocated as *mut (), Ordering::Relaxed);
    ON_RELEASING.store(functions.freed as *mut (), Ordering::Relaxed);
    in_arena::ON_ALLOCATED_IN_ARENA.store(functions.allocated_in_arena as *mut (), Ordering::Relaxed);
    in_arena::ON_RELEASING_IN_ARENA.store(functions.freed_in_arena as *mut (), Ordering::Relaxed);
}

/// The functions of a mode.
struct Functions {
    allocated: Allocated,
    freed: Releasing,
    allocated_in_arena: Allocated,
    freed_in_arena: Releasing,
}

const DECLINING: Functions = Functions {
    allocated: decline,
    freed: releasing,
    allocated_in_arena: in_arena::allocated,
    freed_in_arena: in_arena::releasing,
};

fn functions<const LOG: bool, const MIN_CHUNK_32: bool>() -> Functions {
    match runtimes::are_present() {
        true if runtimes::python::finds_frames_at_once() => functions_woven::<LOG, MIN_CHUNK_32, true>(),
        true => functions_woven::<LOG, MIN_CHUNK_32, false>(),
        false => Functions {
            allocated: allocated::<LOG, MIN_CHUNK_32>,
            freed: freed::<LOG, MIN_CHUNK_32, false>,
            ..DECLINING
        },
    }
}

fn functions_woven<const LOG: bool, const MIN_CHUNK_32: bool, const AT_ONCE: bool>() -> Functions {
    Functions {
        allocated: allocated_woven::<LOG, MIN_CHUNK_32, AT_ONCE>,
        freed: freed::<LOG, MIN_CHUNK_32, true>,
        allocated_in_arena: in_arena::allocated_fast::<LOG, MIN_CHUNK_32, AT_ONCE>,
        freed_in_arena: in_arena::freed_fast::<LOG, MIN_CHUNK_32>,
    }
}

/// Counts an allocation of one of the wrappers; false: the event is for the slow path.
pub(super) fn allocate(block: Pointer, size: usize, entry: &Entry) -> bool {
    // SAFETY: only functions of this type are stored there.
    let allocated: Allocated = unsafe { core::mem::transmute(ON_ALLOCATED.load(Ordering::Relaxed)) };
    finish(allocated(block, size, entry.pc, entry.sp, entry.fp), block)
}

/// Does what a fast path has left of an allocation; false: the event is for the slow path.
#[inline(always)]
pub(super) fn finish(done: Counted, block: Pointer) -> bool {
    match done {
        Counted::Done => true,
        Counted::FlushDue => {
            flush(block);
            true
        }
        Counted::Declined | Counted::Uncached => false,
    }
}

/// Counts a free before it happens, in the mode in force.
pub(super) fn release(block: Pointer, caller: u64) {
    // SAFETY: only functions of this type are stored there.
    let freed: Releasing = unsafe { core::mem::transmute(ON_RELEASING.load(Ordering::Relaxed)) };
    freed(block, caller);
}

/// Whether an event of the fast path is one of glibc's allocator, which is the only one.
pub(super) fn is_over_glibc() -> bool {
    fast(|fast| Some(fast.session.live.shadow.has_min_chunk_32())).unwrap_or(false)
}

/// Counts an allocation of any family and with any cached stack; false: the event is for the slow
/// path.
pub(super) fn allocate_from(source: Source, block: Pointer, size: usize, entry: &Entry) -> bool {
    let (address, size, entry) = (block as u64, size as u64, *entry);
    let (block, Source { family, is_measured }) = (NewBlock { address, size, source }, source);
    let usable = if is_measured && address != 0 { measured(address, size, family) } else { None };
    let done = fast(|fast| {
        // Not regular.
        if usable.is_some_and(|usable| fast.session.slack.known(size, family) != Some(usable - size)) {
            return None;
        }
        let Fast { session, .. } = &fast;
        let is_log = session.control.activity() == Activity::Log;
        let min_chunk_32 = family == Family::LINKED && session.live.shadow.has_min_chunk_32();
        match (is_log, min_chunk_32, runtimes::are_present()) {
            (false, false, false) => count_any::<false, false, false>(fast, block, entry),
            (false, false, true) => count_any::<false, false, true>(fast, block, entry),
            (false, true, false) => count_any::<false, true, false>(fast, block, entry),
            (false, true, true) => count_any::<false, true, true>(fast, block, entry),
            (true, false, false) => count_any::<true, false, false>(fast, block, entry),
            (true, false, true) => count_any::<true, false, true>(fast, block, entry),
            (true, true, false) => count_any::<true, true, false>(fast, block, entry),
            (true, true, true) => count_any::<true, true, true>(fast, block, entry),
        }
    });
    if done == Some(true) {
        flush(null_mut());
    }
    done.is_some()
}

/// Counts a free before it happens, of a family other than the linked one; false: the event is for
/// the slow path.
pub(super) fn release_from(family: Family, block: Pointer, caller: u64) -> bool {
    let done = fast(|fast| match fast.session.control.activity() {
        Activity::Exact => count_free::<false, false, false>(fast, block as u64, caller, family),
        Activity::Log => count_free::<true, false, false>(fast, block as u64, caller, family),
        Activity::Idle | Activity::Sampling => None,
    });
    if done == Some(true) {
        flush(block);
    }
    done.is_some()
}

/// A block that was just allocated.
#[derive(Clone, Copy)]
struct NewBlock {
    address: u64,
    size: u64,
    source: Source,
}

impl NewBlock {
    #[inline(always)]
    fn linked(address: u64, size: u64) -> Self {
        Self { address, size, source: Source::LINKED }
    }
}

/// What became of an event, for stubs that save registers only for what follows.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Nothing was counted: the event is for another path.
    Declined = 0,
    Done = 1,
    /// It is counted, and the thread's sums are to be flushed.
    FlushDue = 2,
    /// As [`Declined`](Self::Declined): the stack cache does not have the stack.
    Uncached = 3,
}

impl Counted {
    #[inline(always)]
    pub(super) fn of(done: Option<bool>) -> Self {
        match done {
            None => Self::Declined,
            Some(false) => Self::Done,
            Some(true) => Self::FlushDue,
        }
    }
}

/// Counts an allocation in exact mode, and does nothing else; `call` is that of the function.
#[cfg(target_arch = "x86_64")]
pub(crate) extern "C" fn allocate_exact(
    block: Pointer,
    size: usize,
    pc: u64,
    sp: u64,
    fp: u64,
    call: &Call,
) -> Counted {
    let (source, entry) = (call.source(size), Entry { pc, sp, fp });
    let block = NewBlock { address: block as u64, size: size as u64, source };
    Counted::of(fast(|fast| match fast.session.control.activity() {
        // Frames of the runtime belong to the stack.
        _ if source.is_measured || runtimes::are_present() => None,
        Activity::Exact if fast.session.live.shadow.has_min_chunk_32() => {
            count_any::<false, true, false>(fast, block, entry)
        }
        Activity::Exact => count_any::<false, false, false>(fast, block, entry),
        Activity::Idle | Activity::Sampling | Activity::Log => None,
    }))
}

/// Counts a free in exact mode, and does nothing else; `call` is that of the function.
#[cfg(target_arch = "x86_64")]
pub(crate) extern "C" fn release_exact(block: Pointer, caller: u64, call: &Call) -> Counted {
    let family = call.family();
    Counted::of(fast(|fast| match fast.session.control.activity() {
        Activity::Exact if fast.session.live.shadow.has_min_chunk_32() => {
            count_free::<false, true, false>(fast, block as u64, caller, family)
        }
        Activity::Exact => count_free::<false, false, false>(fast, block as u64, caller, family),
        Activity::Idle | Activity::Sampling | Activity::Log => None,
    }))
}

extern "C" fn decline(_: Pointer, _: usize, _: u64, _: u64, _: u64) -> Counted {
    Counted::Declined
}

/// With events, or without; over an allocator with chunks of 32 bytes at least, or any. What calls
/// a function is elsewhere, so that it needs no registers of its caller.
extern "C" fn allocated<const LOG: bool, const MIN_CHUNK_32: bool>(
    block: Pointer,
    size: usize,
    pc: u64,
    sp: u64,
    fp: u64,
) -> Counted {
    let done = fast(|Fast { session, state }| {
        let Some(stack) = state.stacks.find_first(Entry { pc, sp, fp }) else {
            return Some(Counted::Uncached);
        };
        let (tally, block) = (stack.tally_of(size)?, NewBlock::linked(block as u64, size as u64));
        Some(Counted::of(count_alloc::<LOG, MIN_CHUNK_32, false>(session, state, tally, block)))
    });
    match done {
        Some(Counted::Uncached) => allocated_further::<LOG, MIN_CHUNK_32>(block, size, pc, sp, fp),
        Some(counted) => counted,
        None => Counted::Declined,
    }
}

/// As [`allocated`], of a stack that is not the only one with its registers and places.
#[inline(never)]
extern "C" fn allocated_further<const LOG: bool, const MIN_CHUNK_32: bool>(
    block: Pointer,
    size: usize,
    pc: u64,
    sp: u64,
    fp: u64,
) -> Counted {
    let done = fast(|Fast { session, state }| {
        let Some(stack) = state.stacks.find_further(Entry { pc, sp, fp }) else {
            return Some(Counted::Uncached);
        };
        let (tally, block) = (stack.tally_of(size)?, NewBlock::linked(block as u64, size as u64));
        Some(Counted::of(count_alloc::<LOG, MIN_CHUNK_32, false>(session, state, tally, block)))
    });
    done.unwrap_or(Counted::Declined)
}

/// As [`allocated`], with frames of a language runtime in the stack.
extern "C" fn allocated_woven<const LOG: bool, const MIN_CHUNK_32: bool, const AT_ONCE: bool>(
    block: Pointer,
    size: usize,
    pc: u64,
    sp: u64,
    fp: u64,
) -> Counted {
    count_by_position::<LOG, MIN_CHUNK_32, AT_ONCE>(block, size, Entry { pc, sp, fp })
}

/// Counts an allocation with frames of a language runtime in its stack; first, where `AT_ONCE`, by
/// a leaf function.
#[inline(always)]
pub(super) fn count_by_position<const LOG: bool, const MIN_CHUNK_32: bool, const AT_ONCE: bool>(
    block: Pointer,
    size: usize,
    Entry { pc, sp, fp }: Entry,
) -> Counted {
    if !AT_ONCE {
        return allocated_woven_further::<LOG, MIN_CHUNK_32>(block, size, pc, sp, fp);
    }
    let mut found = None;
    let done = fast(|Fast { session, state }| {
        let tally = runtimes::tally_at_once(&state.stacks, &mut state.script, Entry { pc, sp, fp }, size)?;
        found = Some(tally.number);
        let block = NewBlock::linked(block as u64, size as u64);
        count_alloc::<LOG, MIN_CHUNK_32, false>(session, state, tally, block)
    });
    match (done, found) {
        (Some(_), _) => Counted::of(done),
        (None, Some(tally)) => count_second::<LOG, MIN_CHUNK_32>(block, size, tally),
        (None, None) => allocated_woven_further::<LOG, MIN_CHUNK_32>(block, size, pc, sp, fp),
    }
}

/// Counts an allocation that may be the second of two in 32 bytes, in a tally of the thread's own.
/// It is looked up by its number: a signal handler may have forked since it was found, and the
/// records of the parent are not mapped in the child.
#[inline(never)]
fn count_second<const LOG: bool, const MIN_CHUNK_32: bool>(
    block: Pointer,
    size: usize,
    number: u32,
) -> Counted {
    Counted::of(fast(|Fast { session, state }| {
        let tally = TallyRef { number, counts: state.tally_of_free(number)? };
        let block = NewBlock::linked(block as u64, size as u64);
        count_alloc::<LOG, MIN_CHUNK_32, true>(session, state, tally, block)
    }))
}

/// As [`allocated_woven`], of a stack that is not found at once.
#[inline(never)]
extern "C" fn allocated_woven_further<const LOG: bool, const MIN_CHUNK_32: bool>(
    block: Pointer,
    size: usize,
    pc: u64,
    sp: u64,
    fp: u64,
) -> Counted {
    let (block, entry) = (NewBlock::linked(block as u64, size as u64), Entry { pc, sp, fp });
    Counted::of(fast(|fast| count_any::<LOG, MIN_CHUNK_32, true>(fast, block, entry)))
}

/// Counts an allocation whose stack the slow path has captured; false: all of it is for the slow
/// path.
pub(super) fn count_captured(
    session: &Session,
    state: &mut State,
    tally: TallyRef,
    address: u64,
    size: u64,
) -> bool {
    if !state.is_fast(session) {
        return false;
    }
    tally.widen_sizes(session, size);
    let is_log = session.control.activity() == Activity::Log;
    let block = NewBlock::linked(address, size);
    let done = match (is_log, session.live.shadow.has_min_chunk_32()) {
        (false, true) => count_alloc::<false, true, true>(session, state, tally, block),
        (false, false) => count_alloc::<false, false, true>(session, state, tally, block),
        (true, true) => count_alloc::<true, true, true>(session, state, tally, block),
        (true, false) => count_alloc::<true, false, true>(session, state, tally, block),
    };
    if done == Some(true) {
        state.flush_live(session);
    }
    done.is_some()
}

/// Counts an allocation with any cached stack, with frames of a language runtime in it, or without.
#[inline(always)]
fn count_any<const LOG: bool, const MIN_CHUNK_32: bool, const WOVEN: bool>(
    fast: Fast<'_>,
    block: NewBlock,
    entry: Entry,
) -> Option<bool> {
    let Fast { session, state } = fast;
    let size = block.size as usize;
    let tally = match WOVEN {
        true => runtimes::cached_tally(session, &mut state.stacks, &mut state.script, entry, size)?,
        false => state.stacks.find(entry)?.tally_of(size)?,
    };
    count_alloc::<LOG, MIN_CHUNK_32, WOVEN>(session, state, tally, block)
}

/// Counts an allocation; returns whether the thread's sums are to be flushed. `None`: nothing was
/// counted.
#[inline(always)]
fn count_alloc<const LOG: bool, const MIN_CHUNK_32: bool, const WOVEN: bool>(
    session: &Session,
    state: &mut State,
    tally: TallyRef,
    block: NewBlock,
) -> Option<bool> {
    let NewBlock { address, size, source } = block;
    if !MIN_CHUNK_32 && !live::is_large(size) {
        return None;
    }
    let Regular { slack, class } = session.slack.regular_of_new(size, source)?;
    let cell = session.live.shadow.known_where::<MIN_CHUNK_32>(address)?.pair()?;
    // Only small blocks of an arena start in the same 32 bytes as another.
    let is_second = WOVEN && !LOG && MIN_CHUNK_32 && !live::is_large(size) && cell.is_taken();
    if !tally.counts.is_current(session.peak.now()) || !(cell.is_empty() || is_second) {
        return None;
    }
    let time_slot = if LOG { Some(session.live.alloc_times.known(address)?) } else { None };
    if LOG && !state.log.is_ready(session) || !state.fast_budget() {
        return None;
    }
    if !is_second {
        cell.put(tally.number, size as u32);
    } else if !live::insert_second(session, address, Live { tally: tally.number, size }) {
        return None;
    }
    tally.counts.add_own_alloc(Amount { size, slack });
    if let Some(slot) = time_slot {
        let block = Block { tally: tally.number, size, by_realloc: false };
        slot.set(log::alloc_ready(&mut state.log, address, block));
    }
    state.histogram().add_own_alloc(class, size);
    Some(state.add_allocated(size))
}

extern "C" fn freed<const LOG: bool, const MIN_CHUNK_32: bool, const WOVEN: bool>(
    block: Pointer,
    caller: u64,
) -> Pointer {
    // The real function reads it: without this, only after all misses of the index.
    prefetch_write(block.wrapping_byte_sub(16));
    let (address, family) = (block as u64, Family::LINKED);
    let done = fast(|fast| count_free::<LOG, MIN_CHUNK_32, WOVEN>(fast, address, caller, family));
    match done {
        Some(false) => block,
        Some(true) => flush(block),
        None => releasing(block, caller),
    }
}

/// Counts the free of a block in an arena of a language runtime: never part of another call. The
/// second of two blocks in 32 bytes is for [`freed`].
#[inline(always)]
pub(super) fn freed_in_arena<const LOG: bool, const MIN_CHUNK_32: bool>(
    block: Pointer,
    caller: u64,
) -> Pointer {
    let (address, family) = (block as u64, Family::LINKED);
    match fast(|fast| count_own_free::<LOG, MIN_CHUNK_32, false>(fast, address, family)) {
        Some(false) => block,
        Some(true) => flush(block),
        None => freed::<LOG, MIN_CHUNK_32, true>(block, caller),
    }
}

/// Counts a free; returns whether the thread's sums are to be flushed. `None`: nothing was counted.
#[inline(always)]
fn count_free<const LOG: bool, const MIN_CHUNK_32: bool, const WOVEN: bool>(
    fast: Fast<'_>,
    address: u64,
    caller: u64,
    family: Family,
) -> Option<bool> {
    if !fast.state.is_known_outside(caller) {
        return None;
    }
    count_own_free::<LOG, MIN_CHUNK_32, WOVEN>(fast, address, family)
}

/// As [`count_free`], of a call that is not part of another one.
#[inline(always)]
fn count_own_free<const LOG: bool, const MIN_CHUNK_32: bool, const WOVEN: bool>(
    fast: Fast<'_>,
    address: u64,
    family: Family,
) -> Option<bool> {
    let Fast { session, state } = fast;
    let cell = session.live.shadow.known_where::<MIN_CHUNK_32>(address)?.pair()?;
    let (live, second) = match cell.get() {
        Some(live) => (live, None),
        None if WOVEN && !LOG => {
            let second = live::get_second(session, address)?;
            (second.block(), Some(second))
        }
        None => return None,
    };
    let counts = state.tally_of_free(live.tally)?;
    let Regular { slack, class } = session.slack.regular(live.size, family)?;
    if !counts.is_current(session.peak.now()) {
        return None;
    }
    let time_slot = if LOG { Some(session.live.alloc_times.known(address)?) } else { None };
    if LOG && !state.log.is_ready(session) || !state.fast_budget() {
        return None;
    }
    match second {
        None => cell.clear(live.size),
        Some(second) => second.remove(),
    }
    counts.add_own_free(Amount { size: live.size, slack });
    if let Some(slot) = time_slot {
        log::free_ready(&mut state.log, address, live, slot.get());
        slot.set(alloc_times::AllocTime::UNKNOWN);
    }
    state.histogram().add_own_free(class, live.size);
    Some(state.add_freed(address, live.size))
}

/// Flushes the thread's live bytes. Its result is opaque, or it would be called and not jumped to.
#[cold]
#[inline(never)]
pub(crate) extern "C" fn flush(block: Pointer) -> Pointer {
    if let Some(mut inside) = enter()
        && let (session, Some(state)) = inside.with_existing_state()
    {
        state.flush_live(session);
    }
    black_box(block)
}
