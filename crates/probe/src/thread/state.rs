//! The mapped state of a thread that records everything.
#![allow(unsafe_code)]

use crate::atomics::Ordering;
use core::ffi::CStr;

use heapwise_format::segment::Counter;

use super::bucket_cache::{Alike, BucketCache, Kept};
use super::slabs::{self, SHARED_SLAB};
use crate::buckets::Key;
use crate::control::Activity;
use crate::fixed_text::FixedText;
use crate::log::ThreadLog;
use crate::recorder::Block;
use crate::script::Script;
use crate::tallies::{Counts, Slab};
use crate::unwind::Memo;
use crate::{buckets, clock, control, dump, family, hooks, index, log, process, prof, recent, segment, sys};

/// Live bytes reach the shared counters in steps of this, so that threads do not fight for them.
const FLUSH_BYTES: i64 = 64 * 1024;
/// Allocated bytes are told at least this often, for dumps that are due by them.
const FLUSH_ALLOCATED: u64 = 1 << 20;
/// The other counters are at most this many events old.
const FLUSH_EVENTS: u32 = 4096;
/// One event in so many has its time taken, and some work done.
const TICK_EVENTS: u32 = 64;

/// What a thread does with an event without further questions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quick {
    /// It is counted, in the shadow index.
    Count,
    /// It is written down.
    Write,
}

/// Zeroed memory is valid.
pub(crate) struct State {
    /// This thread's tallies.
    pub(crate) slab: Slab,
    record: u32,
    /// Period that the sums below belong to, and the buckets.
    period: u32,
    events: u32,
    /// The terms that the thread has agreed to, and those under which it counts or writes events without further
    /// questions; 0: none.
    terms: u64,
    counting_terms: u64,
    writing_terms: u64,
    /// `age_ms` as of the last look at the clock.
    pub(crate) now_ms: u32,
    live: i64,
    /// Highest `live` since the last flush.
    highest: i64,
    allocated: u64,
    recorded: u64,
    freed: u64,
    unknown: u64,
    /// Address last freed.
    last_freed: u64,
    /// Who freed last: not part of another hooked call.
    outside: u64,
    buckets: BucketCache,
    /// The last stack.
    pub(crate) memo: Memo,
    /// Declared frames.
    pub(crate) script: Script,
    /// The event log.
    pub(crate) log: ThreadLog,
    /// What the program calls the thread.
    name: FixedText<NAME_BYTES>,
}

/// Room for a thread's name, and its end.
const NAME_BYTES: usize = 32;

impl State {
    pub(super) fn create() -> Option<*mut State> {
        let Ok(memory) = sys::map_private(size_of::<State>()) else {
            segment::count(Counter::LostThreads);
            return None;
        };
        let state = memory.cast::<State>();
        let (slab, record) = slabs::acquire();
        // SAFETY: fresh zeroed memory of this size, page-aligned, which is a valid state.
        unsafe {
            (*state).slab = Slab::numbered(slab);
            (*state).record = record;
            (*state).log.thread = record;
        }
        segment::counter(Counter::OwnBytes).fetch_add(size_of::<State>() as u64, Ordering::Relaxed);
        Some(state)
    }

    /// Gives everything back.
    pub(super) fn destroy(state: *mut State) {
        {
            // SAFETY: detached from its thread by `take_state`, so this is the only user.
            let state = unsafe { &mut *state };
            log::end(&mut state.log);
            state.flush();
            slabs::release(state.slab.number(), state.record);
        }
        Self::discard(state);
        segment::counter(Counter::OwnBytes).fetch_sub(size_of::<State>() as u64, Ordering::Relaxed);
    }

    /// Unmaps without a word: the state of a forked child speaks of its parent's segment.
    pub(crate) fn discard(state: *mut State) {
        // SAFETY: as `destroy`.
        unsafe { sys::unmap(state.cast(), size_of::<State>()) };
    }

    /// The thread's name: as the program set it, else empty.
    pub(crate) fn name(&self) -> &CStr {
        self.name.as_c_str().unwrap_or(c"")
    }

    /// Names the thread, cut to fit.
    pub(crate) fn set_name(&mut self, name: &CStr) {
        let bytes = name.to_bytes();
        self.name.clear();
        self.name.push(bytes.get(..NAME_BYTES - 1).unwrap_or(bytes));
        slabs::rename(self.record, self.name.as_bytes());
    }

    /// Begins an event that can be dealt with quickly; `None`, and nothing is begun, for others.
    #[inline(always)]
    pub(crate) fn quick_tick(&mut self) -> Option<Quick> {
        let terms = control::terms()?;
        if self.events.is_multiple_of(TICK_EVENTS) {
            return None;
        }
        let quick = if terms == self.counting_terms {
            Quick::Count
        } else if terms == self.writing_terms {
            Quick::Write
        } else {
            return None;
        };
        self.events = self.events.wrapping_add(1);
        Some(quick)
    }

    /// Begins an event; true for the one in 64 whose time is taken.
    #[inline(always)]
    pub(crate) fn tick(&mut self) -> bool {
        if self.terms != family::terms() {
            self.agree();
        }
        let timed = self.events.is_multiple_of(TICK_EVENTS);
        if timed {
            self.now_ms = process::age_ms();
            if self.events.is_multiple_of(FLUSH_EVENTS) {
                self.flush();
            }
        }
        self.events = self.events.wrapping_add(1);
        timed
    }

    /// Looks at everything that the quick ways take for granted, and that changes with the terms.
    #[cold]
    fn agree(&mut self) {
        // Before what they stand for: who misses a change now finds other terms the next time.
        self.terms = family::terms();
        self.memo.distrust();
        if self.period != control::period() {
            self.begin_period();
        }
        let is_plain = !prof::are_some_off() && !recent::is_keeping() && self.slab.number() != SHARED_SLAB;
        (self.counting_terms, self.writing_terms) = match control::activity() {
            Activity::Exact if is_plain && index::is_shadow() => (self.terms, 0),
            Activity::Log if is_plain && !index::holds_exact_blocks() => (0, self.terms),
            _ => (0, 0),
        };
    }

    #[cold]
    fn begin_period(&mut self) {
        self.forget_sums();
        self.buckets.clear();
        self.period = control::period();
    }

    /// The bucket of a block, if it was used lately.
    #[inline(always)]
    pub(crate) fn known_bucket(&self, alike: Alike) -> Option<Kept> {
        self.buckets.alike(alike)
    }

    /// The bucket of a block, made if there is none.
    #[inline(always)]
    pub(crate) fn bucket(&mut self, node: u32, block: &Block, rate: u16) -> Option<Kept> {
        let alike = block.alike(node, rate);
        self.buckets
            .alike(alike)
            .or_else(|| self.find_bucket(alike, &block.key(node, rate, self.owner()), block))
    }

    fn owner(&self) -> u8 {
        self.slab.number() as u8
    }

    #[inline(never)]
    fn find_bucket(&mut self, alike: Alike, key: &Key, block: &Block) -> Option<Kept> {
        let bucket = buckets::find(key, || block.usable())?;
        let kept = Kept::new(bucket, self.slab.counts(bucket)?)?;
        self.buckets.put_alike(alike, kept);
        Some(kept)
    }

    /// The bucket of a freed block of this period, if one was freed lately.
    #[inline(always)]
    pub(crate) fn known_freed(&self, bucket: u32) -> Option<Kept> {
        self.buckets.numbered(bucket)
    }

    /// A block of this bucket was freed, and more of them may be.
    pub(crate) fn remember_freed(&mut self, bucket: u32, counts: &'static Counts) {
        if let Some(kept) = Kept::new(bucket, counts) {
            self.buckets.put_numbered(kept);
        }
    }

    /// Whether a call from `caller` is one of the program's own, and not part of another hooked one.
    #[inline(always)]
    pub(crate) fn is_outside(&mut self, caller: u64) -> bool {
        if caller == self.outside {
            return true;
        }
        let outside = !hooks::is_inside(caller);
        if outside {
            self.outside = caller;
        }
        outside
    }

    #[inline(always)]
    pub(crate) fn add_allocated(&mut self, bytes: u64) {
        self.recorded += 1;
        self.allocated = self.allocated.wrapping_add(bytes);
        self.live = self.live.wrapping_add(bytes as i64);
        self.highest = self.highest.max(self.live);
        if self.live > FLUSH_BYTES || self.allocated > FLUSH_ALLOCATED {
            self.flush();
        }
    }

    /// `bytes` is `None` for a block of an earlier period.
    #[inline(always)]
    pub(crate) fn add_freed(&mut self, address: u64, bytes: Option<u64>) {
        self.last_freed = address;
        let Some(bytes) = bytes else { return };
        self.freed += 1;
        self.live = self.live.wrapping_sub(bytes as i64);
        if self.live < -FLUSH_BYTES {
            self.flush();
        }
    }

    /// The same address twice in a row is one free: a hooked operator ended in a jump to `free`.
    pub(crate) fn add_unknown(&mut self, address: u64) {
        if self.last_freed == address {
            return;
        }
        self.unknown += 1;
        if self.unknown >= 64 {
            self.flush();
        }
    }

    /// Adds the sums to the shared counters.
    #[cold]
    pub(crate) fn flush(&mut self) {
        let add = |which, amount| segment::counter(which).fetch_add(amount, Ordering::Relaxed);
        if self.period == control::period() {
            add(Counter::Recorded, self.recorded);
            add(Counter::Freed, self.freed);
            add(Counter::UnknownFrees, self.unknown);
            add(Counter::AllocatedBytes, self.allocated);
            // Exact for a thread alone; what others have not added yet is less than `FLUSH_BYTES` each.
            let highest = (add(Counter::LiveBytes, self.live as u64) as i64).wrapping_add(self.highest);
            segment::counter(Counter::PeakBytes).fetch_max(highest.max(0) as u64, Ordering::Relaxed);
            segment::counter(Counter::LastSeen).store(clock::coarse_ns(), Ordering::Relaxed);
        }
        self.forget_sums();
        dump::notice();
    }

    fn forget_sums(&mut self) {
        (self.live, self.highest, self.allocated) = (0, 0, 0);
        (self.recorded, self.freed, self.unknown) = (0, 0, 0);
    }
}
