//! The mapped state of a thread that records every block or close samples.
#![allow(unsafe_code)]

use core::ffi::CStr;

use heapwise_format::segment::{Counter, NO_THREAD, ThreadState};

use super::live_bytes::Part;
use super::registry;
use crate::atomics::Ordering;
use crate::control::Activity;
use crate::declared_frames::DeclaredFrames;
use crate::fixed_text::FixedText;
use crate::log::ThreadLog;
use crate::record::sizes::{self, Histogram};
use crate::runtimes;
use crate::session::Session;
use crate::sites::tallies::{self, Counts, Reserve, SiteKey, Table, TallyRef};
use crate::sites::{MapKey, TallyMap};
use crate::unwind::{self, CachedStack, Entry, Memo, StackCache};
use crate::{clock, control, dump, hooks, log, sys};

/// Sums are flushed at the first tick after this many allocated bytes, for dumps that are due by
/// them.
const FLUSH_ALLOCATED: u64 = 1 << 20;
/// The other counters are at most this many ticks old.
const FLUSH_TICKS: u32 = 32;
/// Events between two ticks.
const TICK_EVENTS: i32 = 128;

/// Callers that are known to be outside other hooked calls, as a power of two. Two callers that
/// free in turn and share a place are on the slow path: of ten, one pair in every second process
/// with 64 places, and in every sixth with 256.
const OUTSIDE_BITS: u32 = 8;

#[inline(always)]
fn outside_slot(caller: u64) -> usize {
    ((caller as u32).wrapping_mul(0x9e37_79b1) >> (32 - OUTSIDE_BITS)) as usize
}

/// In the generation of the fast path: it is that of samples.
const OF_SAMPLES: u64 = 1 << 63;

/// Tallies of other threads whose blocks the thread freed recently.
const REMOTE: usize = 32;

/// A tally of another thread, and where the calling thread counts the frees of its blocks.
#[derive(Clone, Copy)]
struct Remote {
    of: u32,
    counts: *const Counts,
}

/// Zeroed memory is valid. Small fields first: they share a few pages, and the large arrays behind
/// are populated as they are used.
#[repr(C)]
pub(crate) struct State {
    /// The generation under which the fast path may be taken, with [`OF_SAMPLES`] where samples are
    /// recorded; 0: never.
    fast_generation: u64,
    /// The generation that the thread has validated its caches for.
    generation: u64,
    /// Events until the next tick; it is due when this is below zero.
    budget: i32,
    ticks: u32,
    /// Its thread number and rate 0, as they are in the record of a tally of its own.
    own: u32,
    period: u32,
    table: Table,
    histogram: *const Histogram,
    recorded: u64,
    /// Its part of the live bytes of the process.
    part: *const Part,
    /// Most bytes of the part since the last flush.
    highest: i64,
    // Not beside `recorded`: LLVM would combine both into one vector addition, which is slower.
    allocated: u64,
    freed: u64,
    unknown: u64,
    /// Address freed last.
    last_freed: u64,
    outside: [u64; 1 << OUTSIDE_BITS],
    remote: [Remote; REMOTE],
    record: Option<u32>,
    reserve: Reserve,
    map: TallyMap,
    /// Declared frames.
    pub(crate) declared: DeclaredFrames,
    /// The event log.
    pub(crate) log: ThreadLog,
    /// The program's name for the thread, and the system's as two words.
    name: FixedText<NAME_BYTES>,
    system_name: [u64; 2],
    /// Stacks that the thread allocates from repeatedly.
    pub(crate) stacks: StackCache,
    /// The last stack.
    pub(crate) memo: Memo,
    /// The last stack of a language runtime.
    pub(crate) script: runtimes::Memo,
}

/// Room for a thread's name, and its end.
const NAME_BYTES: usize = 32;

impl State {
    pub(super) fn create(session: &Session, record: Option<u32>, name: [u64; 2]) -> Option<*mut State> {
        let memory = sys::map_private(size_of::<State>()).ok()?;
        let place = memory.cast::<State>();
        // SAFETY: fresh zeroed memory of this size, page-aligned, which is a valid state.
        let state = unsafe { &mut *place };
        state.record = record;
        state.own = u32::from(state.thread()) << 16;
        state.system_name = name;
        state.histogram = sizes::of_thread(session, record);
        state.part = session.threads.live_bytes.part(record);
        state.log.set_thread(record);
        if let Some(record) = record {
            registry::describe(session, record, ThreadState::Live);
        }
        Some(place)
    }

    /// Continues with the state of an ended thread; false when that has another name by now.
    pub(super) fn continues(session: &Session, state: *mut State, name: [u64; 2]) -> bool {
        // SAFETY: taken from the pool, so this is the only user.
        let state = unsafe { &mut *state };
        if let Some(record) = state.record.filter(|_| state.system_name == name) {
            state.generation = 0;
            state.fast_generation = 0;
            state.memo.change_thread();
            state.script.reset();
            registry::describe(session, record, ThreadState::Live);
            return true;
        }
        false
    }

    /// The thread ends: everything it counted becomes visible. Returns its name.
    pub(super) fn end(session: &Session, state: *mut State) -> [u64; 2] {
        // SAFETY: detached from its thread by `take_state`, so this is the only user.
        let state = unsafe { &mut *state };
        log::end(&mut state.log);
        // A thread that continues with this state starts a stream of its own.
        state.log = ThreadLog::new();
        state.log.set_thread(state.record);
        state.flush(session);
        if let Some(record) = state.record {
            registry::describe(session, record, ThreadState::Ended);
        }
        state.name.clear();
        state.system_name
    }

    /// Unmaps a state that no thread uses.
    pub(crate) fn destroy(session: &Session, state: *mut State) {
        // SAFETY: detached from its thread, so this is the only user.
        unsafe {
            (*state).map.unmap(&session.segment);
            sys::unmap(state.cast(), size_of::<State>());
        }
    }

    /// Gives a state of a model its thread record.
    #[cfg(all(test, loom))]
    pub(crate) fn set_record(&mut self, session: &Session, record: u32) {
        self.record = Some(record);
        self.histogram = sizes::of_thread(session, Some(record));
        self.part = session.threads.live_bytes.part(Some(record));
    }

    /// Number of the thread in tallies.
    pub(crate) fn thread(&self) -> u16 {
        self.record.map_or(NO_THREAD, |record| record as u16)
    }

    /// The thread's record; `None` when there is no room for one.
    pub(crate) fn record(&self) -> Option<u32> {
        self.record
    }

    /// The thread's histogram of sizes.
    #[inline(always)]
    pub(crate) fn histogram(&self) -> &'static Histogram {
        // SAFETY: set by `create`; a record of the segment in use, or a static.
        unsafe { &*self.histogram }
    }

    #[inline(always)]
    fn part(&self) -> &'static Part {
        // SAFETY: set by `create`; it is mapped as long as the session, which outlives the state.
        unsafe { &*self.part }
    }

    /// The thread's name: as the program set it, else empty.
    pub(crate) fn name(&self) -> &CStr {
        self.name.as_c_str().unwrap_or(c"")
    }

    /// Names the thread, cut to fit.
    pub(crate) fn set_name(&mut self, session: &Session, name: &CStr) {
        let bytes = name.to_bytes();
        self.name.clear();
        self.name.push(bytes.get(..NAME_BYTES - 1).unwrap_or(bytes));
        if let Some(record) = self.record {
            registry::rename(session, record, self.name.as_bytes());
        }
    }
}

/// Events.
impl State {
    /// Whether an event may take the fast path of exact and log mode.
    #[inline(always)]
    pub(crate) fn is_fast(&self, session: &Session) -> bool {
        control::generation(session) == self.fast_generation
    }

    /// Whether an event may take the fast path of sampled mode.
    #[inline(always)]
    pub(crate) fn is_fast_for_samples(&self, session: &Session) -> bool {
        control::generation(session) | OF_SAMPLES == self.fast_generation
    }

    /// Counts an event of the fast path; false when a tick is due, which is for the slow path.
    #[inline(always)]
    pub(crate) fn fast_budget(&mut self) -> bool {
        self.budget = self.budget.wrapping_sub(1);
        self.budget >= 0
    }

    /// Starts an event of the slow path.
    #[inline(always)]
    pub(crate) fn begin_event(&mut self, session: &Session) {
        if self.generation != session.fork.generation() {
            self.revalidate(session);
        }
        if !self.fast_budget() {
            self.tick(session);
        }
    }

    #[cold]
    fn tick(&mut self, session: &Session) {
        self.budget = TICK_EVENTS - 1;
        self.ticks = self.ticks.wrapping_add(1);
        self.table = Table::current(session);
        self.log.expire_tick();
        control::check_leases(session);
        if self.ticks.is_multiple_of(FLUSH_TICKS) || self.allocated > FLUSH_ALLOCATED {
            self.flush(session);
        }
    }

    /// Drops what depends on an older generation, and decides whether the fast path may be taken.
    #[cold]
    fn revalidate(&mut self, session: &Session) {
        // Read before the settings of that generation: a change that is missed now leads to another
        // generation.
        self.generation = session.fork.generation();
        self.stacks.validate(self.generation);
        if runtimes::are_present() {
            self.script.validate_cached(self.generation);
        }
        self.remote.fill(Remote { of: 0, counts: core::ptr::null() });
        self.table = Table::current(session);
        if self.period != session.peak.period() {
            self.period = session.peak.period();
            self.map.clear();
            self.clear_sums();
        }
        let settings = &session.control;
        if settings.activity() == Activity::Log {
            self.log.note_marks(session, settings.marks(), settings.mark_ms());
        }
        self.choose_path(session);
    }

    fn choose_path(&mut self, session: &Session) {
        let settings = &session.control;
        let may_be_fast = settings.has_fast_path()
            && self.record.is_some()
            && !session.recent.is_keeping()
            && !self.declared.declares()
            && !session.prof.are_some_off()
            && !runtimes::is_ending();
        self.fast_generation = match settings.activity() {
            Activity::Exact | Activity::Log if may_be_fast && session.live.is_shadow() => self.generation,
            Activity::Sampling if may_be_fast && session.live.are_samples_shadowed() => {
                self.generation | OF_SAMPLES
            }
            _ => 0,
        };
    }

    /// Lets a script engine declare frames, or take them back.
    pub(crate) fn declare(&mut self, session: &Session, act: impl FnOnce(&mut DeclaredFrames)) {
        act(&mut self.declared);
        self.choose_path(session);
    }

    /// Whether a call from `caller` is the program's own, and not part of another hooked one.
    #[inline(always)]
    pub(crate) fn is_outside(&mut self, caller: u64) -> bool {
        if self.is_known_outside(caller) {
            return true;
        }
        let outside = !hooks::is_nested_call(caller);
        if outside && let Some(known) = self.outside.get_mut(outside_slot(caller)) {
            *known = caller;
        }
        outside
    }

    /// Whether [`Self::is_outside`] recently returned true for `caller`.
    #[inline(always)]
    pub(crate) fn is_known_outside(&self, caller: u64) -> bool {
        self.outside.get(outside_slot(caller)) == Some(&caller)
    }
}

/// Stacks and tallies.
impl State {
    /// The cached stack at `entry`.
    #[inline(always)]
    pub(crate) fn cached_stack(&mut self, session: &Session, entry: Entry) -> Option<&CachedStack> {
        unwind::find_cached(session, &mut self.stacks, &mut self.memo, entry, session.control.depth())
    }

    /// Where the thread counts the free of a block of a tally where every block is recorded, if it
    /// is the thread's own or was used recently.
    #[inline(always)]
    pub(crate) fn tally_of_free(&self, number: u32) -> Option<&'static Counts> {
        let counts = self.table.get(number)?;
        if counts.site().owner() == self.own {
            return Some(counts);
        }
        let remote = self.remote.get(number as usize % REMOTE).filter(|remote| remote.of == number)?;
        // SAFETY: null, or a tally of the segment in use: entries are dropped when that changes.
        unsafe { remote.counts.as_ref() }
    }

    /// A tally of the thread's own that counts samples.
    #[inline(always)]
    pub(crate) fn own_sampled_tally(&self, number: u32) -> Option<TallyRef> {
        let counts = self.table.get(number)?;
        let rate = counts.site().owner() ^ self.own;
        (rate != 0 && rate <= u32::from(u16::MAX)).then_some(TallyRef { number, counts })
    }

    /// The thread's tally of a stack; `None` when there is no room for it.
    pub(crate) fn tally(&mut self, session: &Session, node: u32, rate: u16) -> Option<TallyRef> {
        if self.record.is_none() {
            return tallies::shared(session, node, rate);
        }
        let site = SiteKey::new(node, rate, self.thread());
        let head = session.stack_tree.first_tally(node);
        if let Some(tally) = head.and_then(|head| tallies::first(session, head, site)) {
            return Some(tally);
        }
        let key = MapKey::own(node, rate);
        if let Some(number) = self.map.get(key) {
            return Some(TallyRef { number, counts: tallies::get(session, number)? });
        }
        let made = tallies::make(session, &mut self.reserve, site)?;
        if !head.is_some_and(|head| tallies::claim(session, head, made)) {
            self.map.insert(&session.segment, key, made.number);
        }
        Some(made)
    }

    /// Where the thread counts the frees of another thread's blocks; `None` when there is no room.
    pub(crate) fn remote_tally(&mut self, session: &Session, of: TallyRef) -> Option<TallyRef> {
        let key = MapKey::remote(of.number);
        let tally = match self.map.get(key) {
            Some(number) => TallyRef { number, counts: tallies::get(session, number)? },
            None => {
                let made = tallies::make_remote(session, &mut self.reserve, of)?;
                self.map.insert(&session.segment, key, made.number);
                made
            }
        };
        if let Some(remote) = self.remote.get_mut(of.number as usize % REMOTE)
            && of.counts.site().rate() == 0
        {
            *remote = Remote { of: of.number, counts: tally.counts };
        }
        Some(tally)
    }
}

/// Sums.
impl State {
    /// Counts a block; true when the sums are to be flushed.
    #[inline(always)]
    #[must_use]
    pub(crate) fn add_allocated(&mut self, bytes: u64) -> bool {
        self.recorded += 1;
        self.allocated = self.allocated.wrapping_add(bytes);
        let live = self.part().add(bytes);
        if live > self.highest {
            self.highest = live;
        }
        self.part().is_above(live)
    }

    /// Counts a free, of a block of this period; true when the sums are to be flushed.
    #[inline(always)]
    #[must_use]
    pub(crate) fn add_freed(&mut self, address: u64, bytes: u64) -> bool {
        self.last_freed = address;
        self.freed += 1;
        self.part().subtract(bytes)
    }

    /// Notes a free that is not counted.
    pub(crate) fn note_freed(&mut self, address: u64) {
        self.last_freed = address;
    }

    /// Counts the free of a block that no index holds; false for the same address twice in a row,
    /// which is one free: a hooked operator ended in a jump to `free`.
    pub(crate) fn add_unknown(&mut self, session: &Session, address: u64) -> bool {
        if core::mem::replace(&mut self.last_freed, address) == address {
            return false;
        }
        self.unknown += 1;
        if self.unknown >= 64 {
            self.flush(session);
        }
        true
    }

    /// Adds the live bytes to those of the process: the thread holds, or gave back, more than it
    /// may keep to itself.
    #[inline(never)]
    pub(crate) fn flush_live(&mut self, session: &Session) {
        self.part().flush(session, self.highest);
        self.highest = 0;
        if session.dump.is_armed() {
            self.flush_counts(session);
            dump::notice(session);
        }
    }

    /// Adds all sums to those of the process.
    #[cold]
    pub(crate) fn flush(&mut self, session: &Session) {
        self.flush_counts(session);
        self.flush_live(session);
    }

    fn flush_counts(&mut self, session: &Session) {
        let add = |which, amount| session.segment.counter(which).fetch_add(amount, Ordering::Relaxed);
        if self.period == session.peak.period() {
            add(Counter::Recorded, self.recorded);
            add(Counter::Freed, self.freed);
            add(Counter::UnknownFrees, self.unknown);
            add(Counter::AllocatedBytes, self.allocated);
            session.segment.counter(Counter::LastSeen).store(clock::coarse_ns(), Ordering::Relaxed);
        }
        (self.recorded, self.freed, self.unknown, self.allocated) = (0, 0, 0, 0);
    }

    fn clear_sums(&mut self) {
        self.part().restart(self.period);
        (self.highest, self.allocated) = (0, 0);
        (self.recorded, self.freed, self.unknown) = (0, 0, 0);
    }
}
