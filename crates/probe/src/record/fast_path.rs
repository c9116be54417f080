//! The fast path of exact and log mode: called by the stubs, one leaf function per event.
//!
//! An event takes it when its stack is a cached one, its tally is current and its words of the
//! shadow index are simple; every other event goes to the slow path. The fast path has no side
//! effects until it commits, so the slow path starts with an event that nothing has happened to.

#![allow(unsafe_code)]

use core::hint::black_box;
use core::ptr::null_mut;

use heapwise_format::event::Block;

use super::usable::{Family, Source, measured};
use super::{Pointer, releasing};
use crate::atomics::{AtomicPtr, Ordering};
use crate::control::Activity;
#[cfg(target_arch = "x86_64")]
use crate::hooks::entry_points::Call;
use crate::inside::{Fast, enter, fast};
use crate::live::{self, alloc_times};
use crate::session::Session;
use crate::sites::tallies::Amount;
use crate::unwind::Entry;
use crate::{log, runtimes};

/// After an allocation: block, size, and the [`Entry`] in pieces. False: the event is for the slow
/// path.
type Allocated = extern "C" fn(Pointer, usize, u64, u64, u64) -> bool;
/// Before a free: block and caller. Returns what is to be freed.
type Releasing = extern "C" fn(Pointer, u64) -> Pointer;

/// The fast path of the mode in force, an [`Allocated`]. Any value is safe: each function re-checks
/// the generation.
pub(crate) static ON_ALLOCATED: AtomicPtr<()> = AtomicPtr::new(decline as Allocated as *mut ());
/// The fast path of a free in the mode in force, a [`Releasing`].
pub(crate) static ON_RELEASING: AtomicPtr<()> = AtomicPtr::new(releasing as Releasing as *mut ());

/// Chooses the fast path for a mode.
pub(crate) fn choose(session: &Session, activity: Activity) {
    let min_chunk_32 = session.live.shadow.has_min_chunk_32();
    let (allocated, freed): (Allocated, Releasing) = match (activity, min_chunk_32) {
        (Activity::Exact, true) => functions::<false, true>(),
        (Activity::Exact, false) => functions::<false, false>(),
        (Activity::Log, true) => functions::<true, true>(),
        (Activity::Log, false) => functions::<true, false>(),
        (Activity::Idle | Activity::Sampling, _) => (decline, releasing),
    };
    ON_ALLOCATED.store(allocated as *mut (), Ordering::Relaxed);
    ON_RELEASING.store(freed as *mut (), Ordering::Relaxed);
}

fn functions<const LOG: bool, const MIN_CHUNK_32: bool>() -> (Allocated, Releasing) {
    let allocated: Allocated = match runtimes::are_present() {
        true => allocated::<LOG, MIN_CHUNK_32, true>,
        false => allocated::<LOG, MIN_CHUNK_32, false>,
    };
    (allocated, freed::<LOG, MIN_CHUNK_32>)
}

/// Counts an allocation of one of the wrappers; false: the event is for the slow path.
pub(super) fn allocate(block: Pointer, size: usize, entry: &Entry) -> bool {
    // SAFETY: only functions of this type are stored there.
    let allocated: Allocated = unsafe { core::mem::transmute(ON_ALLOCATED.load(Ordering::Relaxed)) };
    allocated(block, size, entry.pc, entry.sp, entry.fp)
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

/// As [`allocate`], of a family other than the linked one.
pub(super) fn allocate_from(source: Source, block: Pointer, size: usize, entry: &Entry) -> bool {
    let (address, size, entry) = (block as u64, size as u64, *entry);
    let Source { family, is_measured } = source;
    let usable = if is_measured && address != 0 { measured(address, size, family) } else { None };
    let done = fast(|fast| match (fast.session.control.activity(), runtimes::are_present()) {
        // Not regular.
        _ if usable.is_some_and(|usable| fast.session.slack.known(size, family) != Some(usable - size)) => {
            None
        }
        (Activity::Exact, true) => count_alloc::<false, false, true>(fast, address, size, entry, source),
        (Activity::Exact, false) => count_alloc::<false, false, false>(fast, address, size, entry, source),
        (Activity::Log, true) => count_alloc::<true, false, true>(fast, address, size, entry, source),
        (Activity::Log, false) => count_alloc::<true, false, false>(fast, address, size, entry, source),
        (Activity::Idle | Activity::Sampling, _) => None,
    });
    match done {
        Some(false) => true,
        Some(true) => flush_after_alloc(),
        None => false,
    }
}

/// Counts a free before it happens, of a family other than the linked one; false: the event is for
/// the slow path.
pub(super) fn release_from(family: Family, block: Pointer, caller: u64) -> bool {
    let done = fast(|fast| match fast.session.control.activity() {
        Activity::Exact => count_free::<false, false>(fast, block as u64, caller, family),
        Activity::Log => count_free::<true, false>(fast, block as u64, caller, family),
        Activity::Idle | Activity::Sampling => None,
    });
    if done == Some(true) {
        flush(block);
    }
    done.is_some()
}

/// What became of an event of exact mode, for stubs that save registers only for what follows.
#[cfg(target_arch = "x86_64")]
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Nothing was counted: the event is for the slow path.
    Declined = 0,
    Done = 1,
    /// It is counted, and the thread's sums are to be flushed.
    FlushDue = 2,
}

#[cfg(target_arch = "x86_64")]
impl Counted {
    #[inline(always)]
    fn of(done: Option<bool>) -> Self {
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
    let (address, entry) = (block as u64, Entry { pc, sp, fp });
    let source = call.source(size);
    let size = size as u64;
    Counted::of(fast(|fast| match fast.session.control.activity() {
        // Frames of the runtime belong to the stack.
        _ if source.is_measured || runtimes::are_present() => None,
        Activity::Exact if fast.session.live.shadow.has_min_chunk_32() => {
            count_alloc::<false, true, false>(fast, address, size, entry, source)
        }
        Activity::Exact => count_alloc::<false, false, false>(fast, address, size, entry, source),
        Activity::Idle | Activity::Sampling | Activity::Log => None,
    }))
}

/// Counts a free in exact mode, and does nothing else; `call` is that of the function.
#[cfg(target_arch = "x86_64")]
pub(crate) extern "C" fn release_exact(block: Pointer, caller: u64, call: &Call) -> Counted {
    let family = call.family();
    Counted::of(fast(|fast| match fast.session.control.activity() {
        Activity::Exact if fast.session.live.shadow.has_min_chunk_32() => {
            count_free::<false, true>(fast, block as u64, caller, family)
        }
        Activity::Exact => count_free::<false, false>(fast, block as u64, caller, family),
        Activity::Idle | Activity::Sampling | Activity::Log => None,
    }))
}

extern "C" fn decline(_: Pointer, _: usize, _: u64, _: u64, _: u64) -> bool {
    false
}

/// With events, or without; over an allocator with chunks of 32 bytes at least, or any; with frames
/// of a language runtime in the stack, or without.
extern "C" fn allocated<const LOG: bool, const MIN_CHUNK_32: bool, const WOVEN: bool>(
    block: Pointer,
    size: usize,
    pc: u64,
    sp: u64,
    fp: u64,
) -> bool {
    let entry = Entry { pc, sp, fp };
    let (address, size, source) = (block as u64, size as u64, Source::LINKED);
    let done = fast(|fast| count_alloc::<LOG, MIN_CHUNK_32, WOVEN>(fast, address, size, entry, source));
    match done {
        Some(false) => true,
        Some(true) => flush_after_alloc(),
        None => false,
    }
}

/// Counts an allocation; returns whether the thread's sums are to be flushed. `None`: nothing was
/// counted.
#[inline(always)]
fn count_alloc<const LOG: bool, const MIN_CHUNK_32: bool, const WOVEN: bool>(
    fast: Fast<'_>,
    address: u64,
    size: u64,
    entry: Entry,
    source: Source,
) -> Option<bool> {
    let Fast { session, state } = fast;
    // Arenas of a runtime have smaller chunks.
    if (!MIN_CHUNK_32 || WOVEN && runtimes::have_arenas()) && !live::is_large(size) {
        return None;
    }
    let cell = session.live.shadow.known_where::<MIN_CHUNK_32>(address)?;
    cell.prefetch();
    let native = state.stacks.find(entry)?;
    let tally = match WOVEN {
        true => runtimes::cached_tally(session, &mut state.script, native.id(), &entry)?.of_size(size)?,
        false => native.tally_of_size(size)?,
    };
    let amount = Amount { size, slack: session.slack.known_of_new(size, source)? };
    if !tally.counts.is_current(session.peak.now()) || !cell.is_empty() || !cell.is_simple(size) {
        return None;
    }
    let time_slot = if LOG { Some(session.live.alloc_times.known(address)?) } else { None };
    if LOG && !state.log.is_ready(session) || !state.fast_budget() {
        return None;
    }
    tally.counts.add_own_alloc(amount);
    cell.put_simple(tally.number, size);
    if let Some(slot) = time_slot {
        let block = Block { tally: tally.number, size, by_realloc: false };
        slot.set(log::alloc_ready(&mut state.log, address, block));
    }
    state.histogram().add_own_alloc(size);
    Some(state.add_allocated(size))
}

extern "C" fn freed<const LOG: bool, const MIN_CHUNK_32: bool>(block: Pointer, caller: u64) -> Pointer {
    let done = fast(|fast| count_free::<LOG, MIN_CHUNK_32>(fast, block as u64, caller, Family::LINKED));
    match done {
        Some(false) => block,
        Some(true) => flush(block),
        None => releasing(block, caller),
    }
}

/// Counts a free; returns whether the thread's sums are to be flushed. `None`: nothing was counted.
#[inline(always)]
fn count_free<const LOG: bool, const MIN_CHUNK_32: bool>(
    fast: Fast<'_>,
    address: u64,
    caller: u64,
    family: Family,
) -> Option<bool> {
    let Fast { session, state } = fast;
    if !state.is_known_outside(caller) {
        return None;
    }
    let cell = session.live.shadow.known_where::<MIN_CHUNK_32>(address)?;
    let live = cell.get_simple()?;
    let counts = state.tally_of_free(live.tally)?;
    let amount = Amount { size: live.size, slack: session.slack.known(live.size, family)? };
    if !counts.is_current(session.peak.now()) {
        return None;
    }
    let time_slot = if LOG { Some(session.live.alloc_times.known(address)?) } else { None };
    if LOG && !state.log.is_ready(session) || !state.fast_budget() {
        return None;
    }
    cell.clear_simple(live.size);
    counts.add_own_free(amount);
    if let Some(slot) = time_slot {
        log::free_ready(&mut state.log, address, live, slot.get());
        slot.set(alloc_times::AllocTime::UNKNOWN);
    }
    state.histogram().add_own_free(live.size);
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

/// As [`flush`], after an allocation.
#[cold]
#[inline(never)]
extern "C" fn flush_after_alloc() -> bool {
    flush(null_mut());
    black_box(true)
}
