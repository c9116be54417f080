//! Requested and applied settings: the first thread that reads a new sequence number copies, clamps
//! and applies the control page. The mode in force is the strongest demand of the process itself
//! and of the leases (`leases`).

use heapwise_format::segment::{Control, ControlWord, Counter, Demand, IndexKind, Mode, Tier, Writer};

use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::hooks::{self, HookMode};
use crate::record::{self, peak, sizes};
use crate::segment::Segment;
use crate::session::Session;
use crate::sites::rates::{self, Rate};
use crate::sites::tallies;
use crate::{allocator, clock, config, leases, live, log, runtimes, sys, threads};

/// Action of the hooks on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Activity {
    /// Nothing is recorded; frees of blocks that were recorded are.
    Idle = 0,
    /// Some are recorded.
    Sampling = 1,
    /// Every block is counted.
    Exact = 2,
    /// Every block is counted, and every event written to the log.
    Log = 3,
}

/// The settings in force. Zeroed memory is valid: nothing is recorded.
pub(crate) struct Settings {
    activity: AtomicU32,
    /// A [`Rate`].
    rate: AtomicU64,
    depth: AtomicU32,
    tables: AtomicU32,
    has_fast_path: AtomicBool,
    seed: AtomicU64,
    resets: AtomicU64,
    recording: AtomicU64,
    /// Records of marks that are taken.
    mark_records: AtomicU64,
    /// Marks of the process so far.
    marks: AtomicU64,
    /// Events behind the last mark have this millisecond or a later one.
    mark_ms: AtomicU64,
}

/// How far marks may set the time of events ahead of the clock.
const MOST_AHEAD_MS: u64 = 20;

impl Settings {
    #[inline(always)]
    pub(crate) fn activity(&self) -> Activity {
        // Pairs with `set_activity`: a thread that records a block sees the index chosen for it.
        match self.activity.load(Ordering::Acquire) {
            1 => Activity::Sampling,
            2 => Activity::Exact,
            3 => Activity::Log,
            _ => Activity::Idle,
        }
    }

    /// The sampling distance in force, and its number.
    pub(crate) fn rate(&self) -> Rate {
        // Pairs with `enforce`: the number is in the table of the segment.
        Rate::from_word(self.rate.load(Ordering::Acquire))
    }

    /// Mean distance of samples in bytes; 0 when nothing is sampled.
    pub(crate) fn sampling_distance(&self) -> u64 {
        self.rate().distance()
    }

    /// Deepest stack recorded.
    #[inline(always)]
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// A language runtime was found: its own functions make stacks deeper.
    pub(crate) fn deepen(&self) {
        self.set_depth(self.depth());
    }

    fn set_depth(&self, depth: u32) {
        let is_deep = depth == Control::DEFAULT_DEPTH && runtimes::are_present();
        self.depth.store(if is_deep { Control::MAX_DEPTH } else { depth }, Ordering::Relaxed);
    }

    /// Whether events may take the fast path.
    pub(crate) fn has_fast_path(&self) -> bool {
        self.has_fast_path.load(Ordering::Relaxed)
    }

    /// Marks of the process so far.
    pub(crate) fn marks(&self) -> u64 {
        // Pairs with `note_mark`: the millisecond belongs to this mark or a later one.
        self.marks.load(Ordering::Acquire)
    }

    /// The earliest millisecond of events behind the last mark.
    pub(crate) fn mark_ms(&self) -> u64 {
        self.mark_ms.load(Ordering::Relaxed)
    }

    /// Takes the next record for a mark, of `capacity` records.
    pub(crate) fn claim_mark(&self, capacity: u64) -> Option<u64> {
        let next = |used: u64| (used < capacity).then_some(used + 1);
        self.mark_records.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }

    /// A fixed seed for the sampler, for tests that repeat a run.
    pub(crate) fn seed(&self) -> Option<u64> {
        let seed = self.seed.load(Ordering::Relaxed);
        (seed != 0).then_some(seed)
    }
}

/// A mark was set at `now_ms`: every thread notices before its next event, which gets a later
/// millisecond than all events before the mark. So the age of a block determines on which side of
/// the mark it was allocated.
pub(crate) fn note_mark(session: &Session, now_ms: u64) {
    let later = |last: u64| Some(if last > now_ms + MOST_AHEAD_MS { last } else { last.max(now_ms) + 1 });
    let _ = session.control.mark_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    session.control.marks.fetch_add(1, Ordering::Release);
    session.fork.change_generation();
    // Last: the recorder takes all events before so many marks as written.
    session.segment.count(Counter::Marks);
}

/// The generation that is wanted: the one in force, unless there is something to be applied before.
#[inline(always)]
pub(crate) fn generation(session: &Session) -> u64 {
    session.fork.generation_under(session.segment.control(ControlWord::Sequence).load(Ordering::Relaxed))
}

/// Whether the control page changed since it was last applied: two loads. In a forked child that
/// has no session of its own it is always so.
#[inline(always)]
pub(crate) fn is_pending(session: &Session) -> bool {
    session.segment.control(ControlWord::Sequence).load(Ordering::Relaxed) != session.fork.applied()
}

/// Applies the control page again if the holder of a lease has ended. Called now and then by every
/// thread that records.
#[inline]
pub(crate) fn check_leases(session: &Session) {
    if leases::have_changed(session) {
        apply(session);
    }
}

fn read_words(session: &Session) -> Control {
    Control::from_words(|word| session.segment.control(word).load(Ordering::Relaxed))
}

/// Puts the start-up configuration on the control page of a fresh segment and applies it.
pub(crate) fn begin(session: &Session, wanted: &config::Config) {
    let Settings { seed, tables, has_fast_path, .. } = &session.control;
    seed.store(wanted.seed, Ordering::Relaxed);
    tables.store(wanted.tables as u32, Ordering::Relaxed);
    has_fast_path.store(wanted.fast_path, Ordering::Relaxed);
    peak::start_period(session);
    tallies::start_overflow(session);
    let words = [
        (ControlWord::Mode, wanted.mode as u64),
        (ControlWord::SampleBytes, wanted.sample_bytes),
        (ControlWord::MaxDepth, u64::from(wanted.max_depth)),
        (ControlWord::Index, wanted.index as u64),
        (ControlWord::BlockMillis, 1000),
        (ControlWord::Paranoid, u64::from(wanted.paranoid)),
    ];
    for (word, value) in words {
        session.segment.control(word).store(value, Ordering::Relaxed);
    }
    leases::begin(&session.segment, wanted.launcher);
    show(session, Counter::PeriodStart, clock::monotonic_ns());
    session.segment.control(ControlWord::Sequence).store(FIRST_SEQUENCE, Ordering::Release);
    put_in_force(session, &read_words(session), FIRST_SEQUENCE);
}

/// Records nothing, without a segment or without memory for its tables. The sequence is as after
/// [`begin`], so that a forked child notices that it is one, and tries again.
pub(crate) fn stand_aside(session: &Session) {
    session.segment.control(ControlWord::Sequence).store(FIRST_SEQUENCE, Ordering::Release);
    session.fork.set_applied(FIRST_SEQUENCE);
}

/// Even, and not 0: a forked child finds 0 in its wiped page and notices that it is one.
const FIRST_SEQUENCE: u64 = 2;

/// The settings with which a forked child starts: the process's own, and the lease of the process
/// that started it.
pub(crate) fn in_force(session: &Session) -> config::Config {
    let control = read_words(session);
    let Settings { seed, tables, .. } = &session.control;
    config::Config {
        mode: control.mode,
        sample_bytes: control.sample_bytes,
        max_depth: control.max_depth,
        index: control.index,
        paranoid: control.paranoid,
        seed: seed.load(Ordering::Relaxed),
        tables: Tier::ALL.get(tables.load(Ordering::Relaxed) as usize).copied().unwrap_or(Tier::Full),
        fast_path: session.control.has_fast_path(),
        launcher: leases::launcher(session),
        foreign_blocks: hooks::entry_points::has_foreign_blocks(),
        scope: config::Scope::Tree,
        hook_requests: false,
        objects: runtimes::records_objects(),
    }
}

/// Timeout in milliseconds of a change that waits for a thread that applies another one: only a
/// stopped thread takes that long.
const PATIENCE_MS: u32 = 10_000;

/// A change of control words by the program: made by [`change`] only, which holds the lock.
pub(crate) struct Change<'a>(&'a Segment);

impl Change<'_> {
    /// Sets a word.
    pub(crate) fn set(&self, word: ControlWord, value: u64) {
        self.0.control(word).store(value, Ordering::Relaxed);
    }

    /// Requests a reset.
    pub(crate) fn reset(&self) {
        self.0.control(ControlWord::ResetCount).fetch_add(1, Ordering::Relaxed);
    }
}

/// Changes control words for the program, and applies them. A lock orders the threads, so no change
/// is lost. A controller does not wait for the program and may write at the same time: program and
/// controller write different sequences (see [`Control::next_sequence`]), so the last write is
/// applied, and it covers the words of both.
pub(crate) fn change(session: &Session, words: impl FnOnce(&Change<'_>)) {
    let turn = (0..PATIENCE_MS).find_map(|_| {
        let turn = session.fork.take_turn();
        if turn.is_none() {
            sys::sleep(1_000_000);
        }
        turn
    });
    let sequence = session.segment.control(ControlWord::Sequence);
    let before = sequence.load(Ordering::Relaxed);
    sequence.store(before | 1, Ordering::Relaxed);
    fence(Ordering::Release);
    words(&Change(&session.segment));
    let after = Control::next_sequence(before, Writer::Program);
    sequence.store(after, Ordering::Release);
    // A controller whose sequence this one replaced has written its words before: read them now.
    fence(Ordering::SeqCst);
    if turn.is_some() {
        put_in_force(session, &read_words(session), after);
    }
}

fn put_in_force(session: &Session, wanted: &Control, sequence: u64) {
    enforce(session, wanted);
    session.fork.set_applied(sequence);
    session.segment.counter(Counter::AppliedSequence).store(sequence, Ordering::Release);
}

/// Applies the control page if it changed since the last time.
#[cfg(test)]
pub(crate) fn poll(session: &Session) {
    if is_pending(session) {
        apply(session);
    }
}

/// Applies the control page, unless another thread does so.
pub(crate) fn apply(session: &Session) {
    let Some(_turn) = session.fork.take_turn() else { return };
    let word = session.segment.control(ControlWord::Sequence);
    let sequence = word.load(Ordering::Acquire);
    if sequence.is_multiple_of(2) {
        let wanted = read_words(session);
        fence(Ordering::Acquire);
        if word.load(Ordering::Relaxed) == sequence {
            put_in_force(session, &wanted, sequence);
        }
    } else {
        // Being written: not looked at again before it changes.
        session.fork.set_applied(sequence);
    }
}

fn enforce(session: &Session, wanted: &Control) {
    let settings = &session.control;
    settings.set_depth(wanted.max_depth);
    session.unwind.set_paranoid(wanted.paranoid);
    if wanted.reset_count != settings.resets.swap(wanted.reset_count, Ordering::Relaxed) {
        reset(session);
    }
    allocator::answer(session, wanted.allocator_stats_count, wanted.stats_text);
    let Demand { mode, sample_bytes } = leases::demand(session, wanted);
    let activity = match mode {
        Mode::Off => Activity::Idle,
        Mode::Log => Activity::Log,
        Mode::Exact => Activity::Exact,
        // One block per byte is every block, also those of no bytes.
        Mode::Sampled if sample_bytes <= 1 => Activity::Exact,
        Mode::Sampled => Activity::Sampling,
    };
    let distance = if activity == Activity::Sampling { sample_bytes } else { 0 };
    if let Some(rate) = rates::find_or_insert(&session.segment, distance) {
        settings.rate.store(rate.word(), Ordering::Release);
    }
    let is_every = matches!(activity, Activity::Exact | Activity::Log);
    if is_every {
        let chosen = live::choose(session, wanted.index);
        show(session, Counter::Index, chosen as u64);
    } else if distance != 0 {
        live::choose_for_samples(session, wanted.index, distance);
    }
    let is_other = wanted.recording != settings.recording.swap(wanted.recording, Ordering::Relaxed);
    if activity == Activity::Log && (is_other || settings.activity() != Activity::Log) {
        // Milliseconds restart at 0.
        settings.mark_ms.store(0, Ordering::Relaxed);
        log::begin_recording(session);
    }
    // Not for samples: a page that has to be made large may be waited for.
    if is_every && settings.activity() != activity && !session.segment.is_settled() {
        session.tallies.prefer_large_pages();
    }
    set_activity(session, activity);
    session.fork.change_generation();
    note_switch(session, mode);
    show(session, Counter::Mode, mode as u64);
    show(session, Counter::SampleBytes, if mode == Mode::Sampled { sample_bytes } else { 0 });
}

/// Counts and dates the changes between off and any other mode.
fn note_switch(session: &Session, mode: Mode) {
    let was_off = session.segment.counter(Counter::Mode).load(Ordering::Relaxed) == Mode::Off as u64;
    match (was_off, mode == Mode::Off) {
        (true, false) => {
            session.segment.count(Counter::Starts);
            let now = clock::monotonic_ns();
            show(session, Counter::StartedNanos, now);
            note_start(session, now);
        }
        (false, true) => show(session, Counter::StoppedNanos, clock::monotonic_ns()),
        _ => {}
    }
}

/// Recording was switched on: with the program if nothing was applied before, else later than the
/// start of the period.
fn note_start(session: &Session, now: u64) {
    let read = |counter| session.segment.counter(counter).load(Ordering::Relaxed);
    if read(Counter::RecordingStart) != 0 {
        return session.segment.count(Counter::Pauses);
    }
    let period_start = read(Counter::PeriodStart);
    let is_first = read(Counter::AppliedSequence) == 0;
    let late = now.max(period_start.saturating_add(1));
    show(session, Counter::RecordingStart, if is_first { period_start } else { late });
}

/// Frees are followed before the first block is recorded and until after the last.
fn set_activity(session: &Session, activity: Activity) {
    let store = || {
        record::choose_fast_path(session, activity);
        session.control.activity.store(activity as u32, Ordering::Release);
    };
    if matches!(activity, Activity::Exact | Activity::Log) {
        hooks::set_hook_mode(HookMode::Tracing);
        store();
    } else {
        store();
        let followed = session.live.holds_exact_blocks();
        hooks::set_hook_mode(if followed { HookMode::CountingAllocations } else { HookMode::Counting });
    }
}

fn show(session: &Session, counter: Counter, value: u64) {
    session.segment.counter(counter).store(value, Ordering::Relaxed);
}

/// A new period: what was counted before is history, which readers pass over.
fn reset(session: &Session) {
    peak::start_period(session);
    tallies::start_overflow(session);
    for thread in [None].into_iter().chain((0..threads::used(session)).map(Some)) {
        sizes::of_thread(session, thread).clear();
    }
    for counter in [
        Counter::Recorded,
        Counter::Freed,
        Counter::LiveBytes,
        Counter::PeakBytes,
        Counter::AllocatedBytes,
        Counter::UnknownFrees,
        Counter::UntrackedBlocks,
        Counter::UntrackedBytes,
        Counter::LostTallies,
        Counter::LostNodes,
        Counter::LostStrings,
        Counter::Reentrant,
        Counter::Truncated,
        Counter::Broken,
        Counter::NoSpaceLosses,
        Counter::FrozenLosses,
        Counter::Pauses,
    ] {
        show(session, counter, 0);
    }
    let now = clock::monotonic_ns();
    show(session, Counter::PeriodStart, now);
    let is_on = session.segment.counter(Counter::Mode).load(Ordering::Relaxed) != Mode::Off as u64;
    show(session, Counter::RecordingStart, if is_on { now } else { 0 });
}

/// The index kind by the name on the command line.
pub(crate) fn index_by_name(name: &[u8]) -> Option<IndexKind> {
    match name {
        b"auto" => Some(IndexKind::Auto),
        b"hash" => Some(IndexKind::Hash),
        b"shadow" => Some(IndexKind::Shadow),
        _ => None,
    }
}
