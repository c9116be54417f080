//! Reflexes: what the stubs call first. An event of the usual kind (a familiar stack, a bucket that was used
//! lately) is dealt with in one go and without a call; every other one is left to
//! [`super::recorded`] and [`super::releasing`], which look closer.
//!
//! Nothing is changed before the last question is answered, so an event that is left is as good as new.

use core::hint::black_box;
use core::ptr::null_mut;

use super::{Pointer, releasing};
use crate::arch::words;
use crate::atomics::{AtomicPtr, Ordering};
use crate::buckets::Account;
use crate::control::Activity;
use crate::thread::{Alike, State, kind_of_call};
use crate::unwind::{self, Entry};
use crate::{buckets, control, index, log, shadow};

/// After an allocation: block, size, [number](crate::thread::call_number) of the call, and the [`Entry`] in pieces. False: the event is left.
type Allocated = extern "C" fn(Pointer, usize, u64, u64, u64, u64) -> bool;
/// Before a free: block and caller. Returns what is to be freed.
type Releasing = extern "C" fn(Pointer, u64) -> Pointer;

/// The reflex of the activity in force, an [`Allocated`]. Called by the stubs; right at any time, because each asks
/// for itself whether it may.
pub(crate) static ON_ALLOCATED: AtomicPtr<()> = AtomicPtr::new(leave as Allocated as *mut ());
/// Likewise a [`Releasing`].
pub(crate) static ON_RELEASING: AtomicPtr<()> = AtomicPtr::new(releasing as Releasing as *mut ());

/// Learns the reflexes for an activity.
pub(crate) fn learn(activity: Activity) {
    let (allocated, freed): (Allocated, Releasing) = match activity {
        Activity::Exact if shadow::are_apart() => (count::<true>, uncount::<true>),
        Activity::Exact => (count::<false>, uncount::<false>),
        Activity::Log => (write, write_free),
        Activity::Idle | Activity::Sampling => (leave, releasing),
    };
    ON_ALLOCATED.store(allocated as *mut (), Ordering::Relaxed);
    ON_RELEASING.store(freed as *mut (), Ordering::Relaxed);
}

extern "C" fn leave(_: Pointer, _: usize, _: u64, _: u64, _: u64, _: u64) -> bool {
    false
}

/// What else an event asks for that is to be counted.
enum After {
    Nothing,
    /// The thread's sums are to be told.
    Telling,
    /// Nothing is done yet: its bucket has to be looked up.
    Looking,
}

impl After {
    #[inline(always)]
    fn counting(full: bool) -> After {
        if full { After::Telling } else { After::Nothing }
    }
}

/// Where blocks [are apart](shadow::are_apart), or are not.
extern "C" fn count<const APART: bool>(
    block: Pointer,
    size: usize,
    call: u64,
    pc: u64,
    sp: u64,
    fp: u64,
) -> bool {
    let entry = Entry { pc, sp, fp };
    let counted = words().with_state(|state| counted::<APART>(state, block as u64, size as u64, call, entry));
    match counted.flatten() {
        Some(After::Nothing) => true,
        Some(After::Telling) => told_allocated(),
        Some(After::Looking) | None => false,
    }
}

#[inline(always)]
fn counted<const APART: bool>(
    state: &mut State,
    address: u64,
    size: u64,
    call: u64,
    entry: Entry,
) -> Option<After> {
    if !state.may_count() || !APART && !index::is_large(size) {
        return None;
    }
    let cell = shadow::known_where::<APART>(address)?;
    cell.expect();
    let node = unwind::familiar(&state.memo, entry)?;
    let kept = state.known_bucket(Alike::of_call(size, node, call))?;
    if !cell.is_empty() || !state.has_time() {
        return None;
    }
    kept.counts.add_own_alloc(0);
    cell.put(kept.bucket);
    Some(After::counting(state.add_allocated(size)))
}

extern "C" fn uncount<const APART: bool>(block: Pointer, caller: u64) -> Pointer {
    let counted = words().with_state(|state| uncounted::<APART>(state, block as u64, caller));
    match counted.flatten() {
        Some(After::Nothing) => block,
        Some(After::Telling) => told(block),
        Some(After::Looking) => uncount_looked_up(block, caller),
        None => releasing(block, caller),
    }
}

#[inline(always)]
fn uncounted<const APART: bool>(state: &mut State, address: u64, caller: u64) -> Option<After> {
    if !state.may_count() || !state.is_known_outside(caller) {
        return None;
    }
    let cell = shadow::known_where::<APART>(address)?;
    let Some(freed) = state.known_freed(cell.number()) else { return Some(After::Looking) };
    if !state.has_time() {
        return None;
    }
    cell.clear();
    freed.counts.add_own_free();
    Some(After::counting(state.add_freed(address, freed.stands_for())))
}

/// The free of a block whose bucket the thread did not use lately.
#[inline(never)]
extern "C" fn uncount_looked_up(block: Pointer, caller: u64) -> Pointer {
    let counted = words().with_state(|state| looked_up(state, block as u64));
    match counted.flatten() {
        Some(After::Telling) => told(block),
        Some(After::Nothing | After::Looking) => block,
        None => releasing(block, caller),
    }
}

#[inline(always)]
fn looked_up(state: &mut State, address: u64) -> Option<After> {
    // Asked again: the thread was outside for a moment.
    if !state.may_count() {
        return None;
    }
    let cell = shadow::known(address)?;
    let number = cell.bucket()?;
    let Account { counts, stands_for } = state.account(number).or_else(|| account_of_other(state, number))?;
    if stands_for == u32::MAX || !state.has_time() {
        return None;
    }
    cell.clear();
    counts.add_own_free();
    state.remember_freed(number, counts, stands_for);
    state.expect_freed(number);
    Some(After::counting(state.add_freed(address, stands_for.into())))
}

/// Where the thread counts frees of what another one allocated, in this period.
#[inline(never)]
fn account_of_other(state: &State, number: u32) -> Option<Account> {
    let bucket = buckets::record(number).filter(|bucket| bucket.period == control::period())?;
    Some(Account { counts: state.slab.counts(number)?, stands_for: bucket.stands_for })
}

extern "C" fn write(block: Pointer, size: usize, call: u64, pc: u64, sp: u64, fp: u64) -> bool {
    let entry = Entry { pc, sp, fp };
    let written = words().with_state(|state| written(state, block as u64, size as u64, call, entry));
    written.flatten().is_some()
}

#[inline(always)]
fn written(state: &mut State, address: u64, size: u64, call: u64, entry: Entry) -> Option<()> {
    if !state.may_write() {
        return None;
    }
    let place = log::known(address)?;
    place.expect();
    let node = unwind::familiar(&state.memo, entry)?;
    let bucket = state.logged_bucket(size, node, kind_of_call(call))?;
    if place.get().is_some() || !state.has_time() || !state.log.is_ready() {
        return None;
    }
    log::alloc_ready(&mut state.log, place, address, bucket);
    Some(())
}

extern "C" fn write_free(block: Pointer, caller: u64) -> Pointer {
    let written = words().with_state(|state| written_free(state, block as u64, caller));
    if written.flatten().is_some() { block } else { releasing(block, caller) }
}

#[inline(always)]
fn written_free(state: &mut State, address: u64, caller: u64) -> Option<()> {
    if !state.may_write() || !state.is_known_outside(caller) {
        return None;
    }
    let place = log::known(address)?;
    // What was written down is in no other index.
    let birth = place.get()?;
    if !state.has_time() || !state.log.is_ready() {
        return None;
    }
    log::free_ready(&mut state.log, place, birth, address);
    Some(())
}

/// Tells the thread's sums. What it returns is opaque, or it would be called and not jumped to.
#[cold]
#[inline(never)]
extern "C" fn told(block: Pointer) -> Pointer {
    let words = words();
    if let Some(mut busy) = words.enter()
        && let Some(state) = words.existing_state(&mut busy)
    {
        state.flush();
    }
    black_box(block)
}

/// The same after an allocation.
#[cold]
#[inline(never)]
extern "C" fn told_allocated() -> bool {
    told(null_mut());
    black_box(true)
}
