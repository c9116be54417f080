//! The slow path: counts an allocation or a free, in every mode and on every thread.
//!
//! A thread without a state (it ended, has no memory, or was interrupted inside the probe) counts
//! in shared tallies, with atomic additions.

use heapwise_format::event;
use heapwise_format::segment::{Counter, NO_THREAD};

use super::sampler::Sampled;
use super::{Block, capture_alone, note, peak, sizes, usable};
use crate::arch::words;
use crate::atomics::Ordering;
use crate::control::Activity;
use crate::live::{self, Inserted, Live, Removed, births};
use crate::log::ThreadLog;
use crate::sites::tallies::{self, Amount, TallyRef, Writer};
use crate::threads::State;
use crate::unwind::{self, Entry};
use crate::{control, dump, fork, hooks, log, prof, recent, segment};

/// The rate of blocks that are all recorded.
pub(super) const EVERY: u16 = 0;

/// Exact and log mode: every block.
pub(super) fn allocated(block: &Block, entry: &Entry) {
    let words = words();
    if prof::is_silent(words) {
        return;
    }
    let mut busy = words.enter();
    let interrupted = busy.is_none();
    if !interrupted {
        control::poll();
        // The order to stop arrived with this event.
        if !matches!(control::activity(), Activity::Exact | Activity::Log) {
            return;
        }
    }
    let state = busy.as_mut().and_then(|busy| words.state(busy));
    count(state, block, entry, interrupted);
}

/// Counts a block that every block is recorded with; `interrupted`: inside the probe, by a signal.
pub(super) fn count(state: Option<&mut State>, block: &Block, entry: &Entry, interrupted: bool) {
    match state {
        Some(state) => {
            state.begin_event();
            if let Some(tally) = site(state, entry, EVERY) {
                count_alloc(Some(state), tally, block);
                if tally.counts.site().thread() != NO_THREAD {
                    state.stacks.widen(*entry, tally, block.size);
                }
            }
        }
        None => {
            let tally = capture_alone(entry, interrupted).and_then(|node| shared_tally(node, EVERY));
            if let Some(tally) = tally {
                count_alloc(None, tally, block);
            }
        }
    }
}

/// The thread's tally for an event; `None` when the call is part of another one.
pub(super) fn site(state: &mut State, entry: &Entry, rate: u16) -> Option<TallyRef> {
    let declares = state.declared.declares();
    let cached = state.cached_stack(*entry).map(|stack| (stack.node(), stack.tally()));
    if let Some((_, Some(tally))) = cached
        && !declares
    {
        return Some(tally);
    }
    let native = match cached {
        Some((node, _)) => node,
        // Cached stacks are never nested calls, so only a cache miss is checked.
        None if hooks::is_nested_call(entry.pc) => return None,
        None => {
            let captured = unwind::capture(&mut state.memo, entry, control::depth());
            note(&captured);
            captured.node
        }
    };
    let tally = state.tally(state.declared.above(native), rate);
    if !declares
        && cached.is_none()
        && let Some(tally) = tally.filter(|tally| tally.counts.site().thread() != NO_THREAD)
    {
        unwind::cache_last(&mut state.stacks, &mut state.memo, native, Some(tally));
    }
    tally.or_else(|| overflow(rate))
}

/// The tally of a stack that all threads share.
pub(super) fn shared_tally(node: u32, rate: u16) -> Option<TallyRef> {
    tallies::shared(node, rate).or_else(|| overflow(rate))
}

#[cold]
fn overflow(rate: u16) -> Option<TallyRef> {
    segment::count_loss(Counter::LostTallies);
    tallies::overflow(rate)
}

/// Counts a block of a known site and inserts it into the live-block index.
pub(super) fn count_alloc(mut state: Option<&mut State>, tally: TallyRef, block: &Block) {
    let Block { address, size, grown } = *block;
    let site = tally.counts.site();
    let writer = if site.thread() == NO_THREAD { Writer::Shared } else { Writer::Own };
    let amount = Amount { size, slack: usable::slack(address, size) };
    let live = Live { tally: tally.number, size };
    let sampled = tally.sampled(size);
    tally.count_alloc(writer, amount, grown.unwrap_or(0), sampled);
    let inserted =
        if site.rate() == EVERY { live::insert(address, live) } else { live::insert_sample(address, live) };
    match inserted {
        Inserted::Yes => {}
        Inserted::Replacing(old) => {
            let slack = usable::known_slack(old.block.size).unwrap_or(0);
            count_free(state.as_deref_mut(), address, &old, event::Freeing::Missed, slack);
        }
        Inserted::No => {
            tally.count_free(writer, amount, sampled);
            let add = |counter, amount| segment::counter(counter).fetch_add(amount, Ordering::Relaxed);
            add(Counter::UntrackedBlocks, sampled.whole_blocks(address));
            if let Some(cause) = segment::cause_of_loss(Counter::NoSpaceLosses, Counter::FrozenLosses) {
                add(cause, sampled.whole_blocks(address));
            }
            add(Counter::UntrackedBytes, sampled.bytes(size));
            let histogram = sizes::of_thread(None);
            histogram.count_alloc(Writer::Shared, size, sampled.whole_blocks(address));
            histogram.count_free(Writer::Shared, size, sampled.whole_blocks(address));
            return with_log(state, ThreadLog::drop_event);
        }
    }
    recent::allocated(address, size, site.node(), thread_number(state.as_deref()));
    if control::activity() == Activity::Log {
        let block = event::Block { tally: tally.number, size, by_realloc: grown.is_some() };
        with_log(state.as_deref_mut(), |log| {
            let birth = log::alloc(log, address, block);
            births::set(address, birth);
        });
    }
    add_allocated(state, writer, address, size, sampled);
}

/// Adds a block to the histogram and to the sums of the thread, or of the process.
fn add_allocated(state: Option<&mut State>, writer: Writer, address: u64, size: u64, sampled: Sampled) {
    let (blocks, bytes) = (sampled.whole_blocks(address), sampled.bytes(size));
    if let Some(state) = state.filter(|_| writer == Writer::Own) {
        state.histogram().count_alloc(writer, size, blocks);
        if state.add_allocated(bytes) {
            state.flush_live();
        }
        return;
    }
    sizes::of_thread(None).count_alloc(Writer::Shared, size, blocks);
    segment::count(Counter::Recorded);
    segment::counter(Counter::AllocatedBytes).fetch_add(bytes, Ordering::Relaxed);
    let live = segment::counter(Counter::LiveBytes).fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    peak::reached(live as i64, live as i64);
    dump::notice();
}

/// The number of a thread in `recent`; 0 for none.
fn thread_number(state: Option<&State>) -> u32 {
    state.and_then(State::record).map_or(0, |record| record + 1)
}

/// Writes to the thread's log, or to the shared one when it has none.
fn with_log(state: Option<&mut State>, write: impl FnOnce(&mut ThreadLog)) {
    match state {
        Some(state) => write(&mut state.log),
        None => drop(log::with_shared(write)),
    }
}

/// Before a block is freed.
pub(super) fn freed(address: u64, caller: u64) {
    let words = words();
    let activity = control::activity();
    let is_every = matches!(activity, Activity::Exact | Activity::Log);
    let mut busy = words.enter();
    let interrupted = busy.is_none();
    if !interrupted {
        // Before the state is read: a forked child drops its parent's state here.
        control::poll();
    }
    let state =
        busy.as_mut().and_then(|busy| if is_every { words.state(busy) } else { words.existing_state(busy) });
    release(state, address, caller, interrupted);
}

fn release(mut state: Option<&mut State>, address: u64, caller: u64, interrupted: bool) {
    let outside = match &mut state {
        Some(state) => state.is_outside(caller),
        None => !hooks::is_nested_call(caller) && !fork::is_forked_child(),
    };
    if !outside {
        return;
    }
    if let Some(state) = &mut state {
        state.begin_event();
    }
    match live::remove(address, is_sample) {
        Some(removed) => {
            let slack = usable::slack(address, removed.block.size);
            if interrupted {
                segment::count(Counter::Reentrant);
            }
            count_free(state, address, &removed, event::Freeing::Plain, slack);
        }
        None => unknown_free(state, address),
    }
}

/// Whether a tally counts samples.
pub(super) fn is_sample(tally: u32) -> bool {
    tallies::get(tally).is_some_and(|counts| counts.site().rate() != EVERY)
}

/// A block was freed that no index holds: allocated before recording began, or by a way that is not
/// hooked.
pub(super) fn unknown_free(state: Option<&mut State>, address: u64) {
    let activity = control::activity();
    if !matches!(activity, Activity::Exact | Activity::Log) {
        return;
    }
    match state {
        Some(state) => {
            if state.add_unknown(address) && activity == Activity::Log {
                log::unknown_free(&mut state.log);
            }
        }
        None => segment::count(Counter::UnknownFrees),
    }
}

/// Counts the free of a block that was removed from its index.
pub(super) fn count_free(
    mut state: Option<&mut State>,
    address: u64,
    removed: &Removed,
    how: event::Freeing,
    slack: u64,
) {
    let Removed { block, birth } = *removed;
    if control::activity() == Activity::Log {
        with_log(state.as_deref_mut(), |log| match how {
            event::Freeing::Missed => log::missed_free(log, block, birth),
            _ => log::free(log, address, block, birth),
        });
    }
    recent::freed(address, thread_number(state.as_deref()));
    let Some(counts) = tallies::get(block.tally) else { return };
    if !counts.is_of_period() {
        if let Some(state) = state {
            state.note_freed(address);
        }
        return;
    }
    let tally = TallyRef { number: block.tally, counts };
    let amount = Amount { size: block.size, slack };
    let sampled = tally.sampled(block.size);
    let (tally, writer) = writable(state.as_deref_mut(), tally);
    tally.count_free(writer, amount, sampled);
    match state {
        Some(state) if state.record().is_some() => {
            state.histogram().count_free(Writer::Own, block.size, sampled.whole_blocks(address));
            if state.add_freed(address, sampled.bytes(block.size)) {
                state.flush_live();
            }
        }
        _ => {
            sizes::of_thread(None).count_free(Writer::Shared, block.size, sampled.whole_blocks(address));
            segment::count(Counter::Freed);
            let bytes = sampled.bytes(block.size);
            segment::counter(Counter::LiveBytes).fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Where a thread counts the frees of a tally's blocks.
fn writable(state: Option<&mut State>, tally: TallyRef) -> (TallyRef, Writer) {
    let owner = tally.counts.site().thread();
    if owner == NO_THREAD {
        return (tally, Writer::Shared);
    }
    let own = match state {
        Some(state) if state.thread() == owner => Some((tally, Writer::Own)),
        Some(state) if state.record().is_some() => {
            state.remote_tally(tally).map(|tally| (tally, Writer::Own))
        }
        _ => tallies::shared_remote(tally).map(|tally| (tally, Writer::Shared)),
    };
    own.or_else(|| Some((overflow(tally.counts.site().rate())?, Writer::Shared)))
        .unwrap_or((tally, Writer::Shared))
}
