//! The slow path: counts an allocation or a free, in every mode and on every thread.
//!
//! A thread without a state (it ended, has no memory, or was interrupted inside the probe) counts
//! in shared tallies, with atomic additions.

use heapwise_format::event;
use heapwise_format::segment::{Counter, NO_THREAD};

use super::sampler::Sampled;
use super::usable::{Family, Source};
use super::{Block, fast_path, note, note_broken, note_node, peak, sizes};
use crate::atomics::Ordering;
use crate::control::Activity;
use crate::inside::{Inside, enter, nested};
use crate::live::{self, Inserted, Live, Removed, alloc_times};
use crate::log::ThreadLog;
use crate::session::Session;
use crate::sites::tallies::{self, Amount, TallyRef, Writer};
use crate::threads::State;
use crate::unwind::{self, Entry, NativeStack, OwnStack};
use crate::{dump, hooks, log, recent, runtimes};

/// The rate of blocks that are all recorded.
pub(super) const EVERY: u16 = 0;

/// Exact and log mode: every block.
pub(super) fn allocated(inside: &mut Inside, block: &Block, entry: &Entry) {
    if inside.prof.is_silent(inside.words()) {
        return;
    }
    match inside.with_state() {
        (session, Some(state)) => {
            state.begin_event(session);
            count(session, state, block, entry, EVERY);
        }
        (session, None) => count_alone(session, block, entry),
    }
}

/// Counts a block at a rate, and lets the caches of stacks lead to its tally.
pub(super) fn count(session: &Session, state: &mut State, block: &Block, entry: &Entry, rate: u16) {
    let Some((tally, is_cached)) = site(session, state, entry, rate, block.is_uncached) else { return };
    let is_own = tally.counts.site().thread() != NO_THREAD;
    let is_plain = is_own && block.grown.is_none() && block.source == Source::LINKED;
    if !(is_plain && fast_path::count_captured(session, state, tally, block.address, block.size)) {
        count_alloc(session, Some(state), tally, block);
    }
    if is_own && is_cached {
        if !runtimes::are_present() {
            state.stacks.widen(session, *entry, tally, block.size);
        } else if !state.declared.declares() {
            state.script.cache_tally(session, tally, block.size);
        }
    }
}

/// As [`count`], on a thread without a state: it ended, has no memory, or was interrupted inside
/// the probe.
#[cold]
#[inline(never)]
pub(super) fn count_alone(session: &Session, block: &Block, entry: &Entry) {
    if hooks::is_nested_call(entry.pc) {
        return;
    }
    let captured = unwind::capture_plain(session, &mut OwnStack::default(), entry, session.control.depth());
    note(&session.segment, &captured);
    note_node(&session.segment, captured.name);
    if let Some(tally) = shared_tally(session, captured.name, EVERY) {
        note_broken(&session.segment, captured.broken, tally);
        count_alloc(session, None, tally, block);
    }
}

/// The thread's tally for an event, and whether a cache may lead to it; `None` when the call is
/// part of another one.
fn site(
    session: &Session,
    state: &mut State,
    entry: &Entry,
    rate: u16,
    is_uncached: bool,
) -> Option<(TallyRef, bool)> {
    let declares = state.declared.declares();
    let cached = match is_uncached {
        true => None,
        false => state.cached_stack(session, *entry).map(|stack| (stack.id(), stack.tally())),
    };
    // Another thread may be changing the rate.
    if let Some((_, Some(tally))) = cached
        && !declares
        && tally.counts.site().rate() == rate
    {
        return Some((tally, true));
    }
    let (native, is_broken) = match cached {
        Some((id, _)) => (id, false),
        // Cached stacks are never nested calls, so only a cache miss is checked.
        None if hooks::is_nested_call(entry.pc) => return None,
        None => {
            let captured = unwind::capture(session, &mut state.memo, entry, session.control.depth());
            note(&session.segment, &captured);
            (captured.name, captured.broken)
        }
    };
    let mut stack =
        NativeStack { entry, id: native, memo: Some(&mut state.memo), is_captured: cached.is_none() };
    let woven = runtimes::weave(session, &mut state.script, &mut stack);
    note_node(&session.segment, woven);
    let tally = state.tally(session, state.declared.above(session, woven), rate);
    if runtimes::are_present() {
        // The native stack alone does not lead to the tally.
        if cached.is_none() {
            unwind::cache_last(session, &mut state.stacks, &mut state.memo, native, None);
        }
    } else if !declares
        && cached.is_none()
        && let Some(tally) = tally.filter(|tally| tally.counts.site().thread() != NO_THREAD)
    {
        unwind::cache_last(session, &mut state.stacks, &mut state.memo, native, Some(tally));
    }
    let tally = tally.or_else(|| overflow(session, rate))?;
    note_broken(&session.segment, is_broken, tally);
    Some((tally, cached.is_some() || runtimes::are_present()))
}

/// The tally of a stack that all threads share.
pub(super) fn shared_tally(session: &Session, node: u32, rate: u16) -> Option<TallyRef> {
    tallies::shared(session, node, rate).or_else(|| overflow(session, rate))
}

#[cold]
fn overflow(session: &Session, rate: u16) -> Option<TallyRef> {
    session.segment.count_loss(Counter::LostTallies);
    tallies::overflow(session, rate)
}

/// Counts a block of a known site and inserts it into the live-block index.
pub(super) fn count_alloc(session: &Session, mut state: Option<&mut State>, tally: TallyRef, block: &Block) {
    let Block { address, size, grown, source, .. } = *block;
    let site = tally.counts.site();
    let writer = if site.thread() == NO_THREAD { Writer::Shared } else { Writer::Own };
    let slack = session.slack.of_new(address, size, source);
    let amount = Amount { size, slack: slack.bytes };
    let live = Live { tally: tally.number, size };
    let sampled = tally.sampled(session, size);
    tally.count_alloc(session, writer, amount, grown.unwrap_or(0), sampled);
    let inserted = if site.rate() == EVERY {
        live::insert(session, address, live, slack.is_regular)
    } else {
        live::insert_sample(session, address, live, slack.is_regular)
    };
    match inserted {
        Inserted::Yes => {}
        Inserted::Replacing(old) => {
            let slack = session.slack.known(old.block.size, source.family).unwrap_or(0);
            count_free(session, state.as_deref_mut(), address, &old, event::Freeing::Missed, slack);
        }
        Inserted::No => {
            tally.count_free(session, writer, amount, sampled);
            let add = |counter, amount| session.segment.counter(counter).fetch_add(amount, Ordering::Relaxed);
            add(Counter::UntrackedBlocks, sampled.whole_blocks(address));
            let cause = session.segment.cause_of_loss(Counter::NoSpaceLosses, Counter::FrozenLosses);
            if let Some(cause) = cause {
                add(cause, sampled.whole_blocks(address));
            }
            add(Counter::UntrackedBytes, sampled.bytes(size));
            let histogram = sizes::of_thread(session, None);
            histogram.count_alloc(Writer::Shared, size, sampled.whole_blocks(address));
            histogram.count_free(Writer::Shared, size, sampled.whole_blocks(address));
            return with_log(session, state, ThreadLog::drop_event);
        }
    }
    recent::allocated(session, block, site.node(), thread_number(state.as_deref()));
    if session.control.activity() == Activity::Log {
        let block = event::Block { tally: tally.number, size, by_realloc: grown.is_some() };
        with_log(session, state.as_deref_mut(), |log| {
            let alloc_time = log::alloc(session, log, address, block);
            alloc_times::set(session, address, alloc_time);
        });
    }
    add_allocated(session, state, writer, address, size, sampled);
}

/// Adds a block to the histogram and to the sums of the thread, or of the process.
fn add_allocated(
    session: &Session,
    state: Option<&mut State>,
    writer: Writer,
    address: u64,
    size: u64,
    sampled: Sampled,
) {
    let (blocks, bytes) = (sampled.whole_blocks(address), sampled.bytes(size));
    if let Some(state) = state.filter(|_| writer == Writer::Own) {
        state.histogram().count_alloc(writer, size, blocks);
        if state.add_allocated(bytes) {
            state.flush_live(session);
        }
        return;
    }
    sizes::of_thread(session, None).count_alloc(Writer::Shared, size, blocks);
    let segment = &session.segment;
    segment.count(Counter::Recorded);
    segment.counter(Counter::AllocatedBytes).fetch_add(bytes, Ordering::Relaxed);
    let live = segment.counter(Counter::LiveBytes).fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    peak::reached(session, live as i64, live as i64);
    dump::notice(session);
}

/// The number of a thread in `recent`; 0 for none.
fn thread_number(state: Option<&State>) -> u32 {
    state.and_then(State::record).map_or(0, |record| record + 1)
}

/// Writes to the thread's log, or to the shared one when it has none.
fn with_log(session: &Session, state: Option<&mut State>, write: impl FnOnce(&mut ThreadLog)) {
    match state {
        Some(state) => write(&mut state.log),
        None => drop(log::with_shared(session, write)),
    }
}

/// Before a block is freed.
pub(super) fn freed(address: u64, caller: u64, family: Family) {
    if runtimes::is_thread_ending() {
        return;
    }
    let Some(mut inside) = enter() else { return freed_nested(address, caller, family) };
    let (session, mut state) = with_state_of_event(&mut inside);
    let is_outside = match &mut state {
        Some(state) => state.is_outside(caller),
        None => !hooks::is_nested_call(caller),
    };
    if is_outside {
        if let Some(state) = &mut state {
            state.begin_event(session);
        }
        release(session, state, address, family);
    }
}

/// The thread's state, created where every block is recorded.
pub(super) fn with_state_of_event(inside: &mut Inside) -> (&Session, Option<&mut State>) {
    match inside.control.activity() {
        Activity::Exact | Activity::Log => inside.with_state(),
        Activity::Idle | Activity::Sampling => inside.with_existing_state(),
    }
}

/// A free in a signal handler that interrupted the probe.
#[cold]
fn freed_nested(address: u64, caller: u64, family: Family) {
    if let Some(session) = nested()
        && !hooks::is_nested_call(caller)
    {
        let is_counted = release(&session, None, address, family);
        if is_counted {
            session.segment.count(Counter::Reentrant);
        }
    }
}

/// Counts the free of a block; whether it was in an index.
fn release(session: &Session, state: Option<&mut State>, address: u64, family: Family) -> bool {
    let Some(removed) = live::remove(session, address, |tally| is_sample(session, tally)) else {
        unknown_free(session, state, address);
        return false;
    };
    let slack = session.slack.of_removed(address, &removed, family);
    count_free(session, state, address, &removed, event::Freeing::Plain, slack);
    true
}

/// Whether a tally counts samples.
pub(super) fn is_sample(session: &Session, tally: u32) -> bool {
    tallies::get(session, tally).is_some_and(|counts| counts.site().rate() != EVERY)
}

/// A block was freed that no index holds: allocated before recording began, or by a way that is not
/// hooked.
pub(super) fn unknown_free(session: &Session, state: Option<&mut State>, address: u64) {
    let activity = session.control.activity();
    // Blocks that a runtime allocates while it is finalized are not recorded.
    if !matches!(activity, Activity::Exact | Activity::Log) || runtimes::is_ending() {
        return;
    }
    match state {
        Some(state) => {
            if state.add_unknown(session, address) && activity == Activity::Log {
                log::unknown_free(session, &mut state.log);
            }
        }
        None => session.segment.count(Counter::UnknownFrees),
    }
}

/// Counts the free of a block that was removed from its index.
pub(super) fn count_free(
    session: &Session,
    mut state: Option<&mut State>,
    address: u64,
    removed: &Removed,
    how: event::Freeing,
    slack: u64,
) {
    let Removed { block, alloc_time, .. } = *removed;
    if session.control.activity() == Activity::Log {
        with_log(session, state.as_deref_mut(), |log| match how {
            event::Freeing::Missed => log::missed_free(session, log, block, alloc_time),
            _ => log::free(session, log, address, block, alloc_time),
        });
    }
    recent::freed(session, address, thread_number(state.as_deref()));
    let Some(counts) = tallies::get(session, block.tally) else { return };
    if !counts.is_of_period(&session.peak) {
        if let Some(state) = state {
            state.note_freed(address);
        }
        return;
    }
    let tally = TallyRef { number: block.tally, counts };
    let amount = Amount { size: block.size, slack };
    let sampled = tally.sampled(session, block.size);
    let (tally, writer) = writable(session, state.as_deref_mut(), tally);
    tally.count_free(session, writer, amount, sampled);
    match state {
        Some(state) if state.record().is_some() => {
            state.histogram().count_free(Writer::Own, block.size, sampled.whole_blocks(address));
            if state.add_freed(address, sampled.bytes(block.size)) {
                state.flush_live(session);
            }
        }
        _ => {
            let histogram = sizes::of_thread(session, None);
            histogram.count_free(Writer::Shared, block.size, sampled.whole_blocks(address));
            session.segment.count(Counter::Freed);
            let bytes = sampled.bytes(block.size);
            session.segment.counter(Counter::LiveBytes).fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Where a thread counts the frees of a tally's blocks.
fn writable(session: &Session, state: Option<&mut State>, tally: TallyRef) -> (TallyRef, Writer) {
    let owner = tally.counts.site().thread();
    if owner == NO_THREAD {
        return (tally, Writer::Shared);
    }
    let own = match state {
        Some(state) if state.thread() == owner => Some((tally, Writer::Own)),
        Some(state) if state.record().is_some() => {
            state.remote_tally(session, tally).map(|tally| (tally, Writer::Own))
        }
        _ => tallies::shared_remote(session, tally).map(|tally| (tally, Writer::Shared)),
    };
    own.or_else(|| Some((overflow(session, tally.counts.site().rate())?, Writer::Shared)))
        .unwrap_or((tally, Writer::Shared))
}
