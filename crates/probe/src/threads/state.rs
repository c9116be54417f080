//! The mapped state of a thread that records everything.
#![allow(unsafe_code)]

use core::ffi::CStr;

use heapwise_format::segment::Counter;

use super::bucket_cache::{Alike, BucketCache, Freed, Kept};
use super::recollection::Recollection;
use super::slabs::{self, SHARED_SLAB};
use crate::atomics::Ordering;
use crate::buckets::{Account, Key, Whose};
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
/// Allocated bytes are told at the first tick after this many, for dumps that are due by them: a block of more than
/// [`FLUSH_BYTES`] is told at once, so that is soon.
const FLUSH_ALLOCATED: u64 = 1 << 20;
/// The other counters are at most this many ticks old.
const FLUSH_TICKS: u32 = 32;
/// One event in so many has its time taken, and some work done.
pub(crate) const TICK_EVENTS: u32 = 128;

/// Callers that are known to be outside.
const OUTSIDE: usize = 64;

#[inline(always)]
fn outside_slot(caller: u64) -> usize {
    (caller ^ caller >> 6) as usize % OUTSIDE
}

/// What a thread does with an event without further questions.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Quick {
    /// There are questions.
    Nothing = 0,
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
    /// Of the slab and the period.
    whose: Whose,
    /// The terms that the thread has agreed to, and what it does under them without further questions.
    terms: u64,
    quick: Quick,
    /// The terms under which it counts or writes by reflex; 0: none.
    counting_terms: u64,
    writing_terms: u64,
    /// Events until the next tick; it is due when this is below zero.
    until_tick: i32,
    ticks: u32,
    /// `age_ms` as of the last look at the clock.
    pub(crate) now_ms: u32,
    recorded: u64,
    live: i64,
    /// Highest `live` since the last flush.
    highest: i64,
    // Not beside `recorded`: the compiler would put both together for one addition, which is more work than two.
    allocated: u64,
    freed: u64,
    unknown: u64,
    /// Address last freed.
    last_freed: u64,
    /// The bucket that was looked up last for a free.
    last_bucket: u32,
    /// Who freed lately: not part of another hooked call.
    outside: [u64; OUTSIDE],
    buckets: BucketCache,
    logged_buckets: Recollection,
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
            (*state).whose = Whose::new(slab, 0);
            (*state).record = record;
            (*state).log.set_thread(record);
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

    /// Whether an event may be counted by reflex: it is to be counted, and no script adds to the stack.
    #[inline(always)]
    pub(crate) fn may_count(&self) -> bool {
        control::terms() == self.counting_terms
    }

    /// Likewise written down.
    #[inline(always)]
    pub(crate) fn may_write(&self) -> bool {
        control::terms() == self.writing_terms
    }

    /// What is to be done with an event.
    #[inline(always)]
    pub(crate) fn quick(&self) -> Quick {
        if control::terms() == self.terms { self.quick } else { Quick::Nothing }
    }

    /// Begins an event, unless a tick is due.
    #[inline(always)]
    pub(crate) fn has_time(&mut self) -> bool {
        self.until_tick = self.until_tick.wrapping_sub(1);
        self.until_tick >= 0
    }

    /// Begins an event; true for the one in [`TICK_EVENTS`] whose time is taken.
    #[inline(always)]
    pub(crate) fn tick(&mut self) -> bool {
        if self.terms != family::terms() {
            self.agree();
        }
        if self.has_time() {
            return false;
        }
        self.until_tick = TICK_EVENTS as i32 - 1;
        self.ticks = self.ticks.wrapping_add(1);
        self.now_ms = process::age_ms();
        if self.ticks.is_multiple_of(FLUSH_TICKS) || self.allocated > FLUSH_ALLOCATED {
            self.flush();
        }
        true
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
        self.quick = match control::activity() {
            Activity::Exact if is_plain && index::is_shadow() => Quick::Count,
            Activity::Log if is_plain && !index::holds_exact_blocks() => Quick::Write,
            _ => Quick::Nothing,
        };
        self.learn();
    }

    /// Learns or unlearns the reflexes.
    fn learn(&mut self) {
        let terms = if self.script.declares() { 0 } else { self.terms };
        self.counting_terms = if self.quick == Quick::Count { terms } else { 0 };
        self.writing_terms = if self.quick == Quick::Write { terms } else { 0 };
    }

    /// Lets a script engine declare frames, or take them back.
    pub(crate) fn declare(&mut self, act: impl FnOnce(&mut Script)) {
        act(&mut self.script);
        self.learn();
    }

    #[cold]
    fn begin_period(&mut self) {
        self.forget_sums();
        self.buckets.clear();
        self.period = control::period();
        self.whose = Whose::new(self.slab.number(), self.period);
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
        self.buckets.alike(alike).or_else(|| self.find_bucket(alike, *block, node, rate))
    }

    /// The same when it was not used lately.
    #[inline(never)]
    fn find_bucket(&mut self, alike: Alike, block: Block, node: u32, rate: u16) -> Option<Kept> {
        let kept = self.looked_up_bucket(&block, node, rate)?;
        self.buckets.put_alike(alike, kept);
        Some(kept)
    }

    /// The same for once.
    #[inline(always)]
    pub(crate) fn looked_up_bucket(&self, block: &Block, node: u32, rate: u16) -> Option<Kept> {
        let key = block.key(node, rate, self.slab.number() as u8);
        let bucket = buckets::find(&key, || block.usable())?;
        let account = match self.account(bucket) {
            Some(account) => account,
            None => self.open_account(bucket, &key)?,
        };
        Some(Kept::new(bucket, account))
    }

    /// Begins to count in a bucket; `None` when there is no memory for a tally.
    #[cold]
    #[inline(never)]
    fn open_account(&self, bucket: u32, key: &Key) -> Option<Account> {
        let stands_for = match key.rate {
            0 => u32::try_from(key.size).unwrap_or(u32::MAX),
            _ => buckets::record(bucket)?.stands_for,
        };
        let counts = self.slab.counts(bucket)?;
        if u32::from(key.owner) == self.slab.number() && key.period == self.period {
            buckets::open(bucket, self.whose, stands_for);
        }
        Some(Account { counts, stands_for })
    }

    /// The account of a bucket of the thread's own.
    #[inline(always)]
    pub(crate) fn account(&self, bucket: u32) -> Option<Account> {
        buckets::account(bucket, self.whose, &self.slab)
    }

    /// The last stack comes before another one, mostly the same as the last time: its bucket is brought near while the stack
    /// is found.
    #[inline(always)]
    pub(crate) fn expect_bucket(&self) {
        if let Some(bucket) = self.memo.next_bucket() {
            buckets::expect(bucket, &self.slab);
        }
    }

    /// Likewise the bucket of what is freed next.
    #[inline(always)]
    pub(crate) fn expect_freed(&mut self, bucket: u32) {
        if let Some(next) = buckets::freed_after(self.last_bucket, bucket) {
            buckets::expect(next, &self.slab);
        }
        self.last_bucket = bucket;
    }

    /// The bucket that a block is written down under, if it was used lately.
    #[inline(always)]
    pub(crate) fn logged_bucket(&self, size: u64, node: u32, kind: u32) -> Option<u32> {
        self.logged_buckets.get(size, node, kind)
    }

    /// The same, made if there is none; `None` (counted) when the table is full.
    #[inline(never)]
    pub(crate) fn find_logged_bucket(&mut self, block: Block, node: u32) -> Option<u32> {
        self.logged_buckets.find(block, node)
    }

    /// The bucket of a freed block of this period, if one was freed lately.
    #[inline(always)]
    pub(crate) fn known_freed(&self, bucket: u32) -> Option<Freed> {
        self.buckets.numbered(bucket).copied()
    }

    /// A block of this bucket was freed, and more of them may be.
    pub(crate) fn remember_freed(&mut self, bucket: u32, counts: &'static Counts, stands_for: u32) {
        self.buckets.put_numbered(bucket, counts, stands_for);
    }

    /// Whether a call from `caller` is one of the program's own, and not part of another hooked one.
    #[inline(always)]
    pub(crate) fn is_outside(&mut self, caller: u64) -> bool {
        if self.is_known_outside(caller) {
            return true;
        }
        let outside = !hooks::is_inside(caller);
        if outside && let Some(known) = self.outside.get_mut(outside_slot(caller)) {
            *known = caller;
        }
        outside
    }

    /// The same, if it was asked lately.
    #[inline(always)]
    pub(crate) fn is_known_outside(&self, caller: u64) -> bool {
        self.outside.get(outside_slot(caller)) == Some(&caller)
    }

    /// Counts a block; true when the sums are to be told.
    #[inline(always)]
    #[must_use]
    pub(crate) fn add_allocated(&mut self, bytes: u64) -> bool {
        self.recorded += 1;
        self.allocated = self.allocated.wrapping_add(bytes);
        self.live = self.live.wrapping_add(bytes as i64);
        if self.live > self.highest {
            self.highest = self.live;
        }
        self.live > FLUSH_BYTES
    }

    /// Counts a free, of a block of this period; true when the sums are to be told.
    #[inline(always)]
    #[must_use]
    pub(crate) fn add_freed(&mut self, address: u64, bytes: u64) -> bool {
        self.last_freed = address;
        self.freed += 1;
        self.live = self.live.wrapping_sub(bytes as i64);
        self.live < -FLUSH_BYTES
    }

    /// Likewise of an earlier period.
    pub(crate) fn add_old_freed(&mut self, address: u64) {
        self.last_freed = address;
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
