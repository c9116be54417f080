//! Requested and applied settings: the first thread that reads a new sequence number copies, clamps
//! and applies the control page. The mode in force is the strongest demand of the process itself
//! and of the leases (`leases`).

use heapwise_format::segment::{Control, ControlWord, Counter, Demand, IndexKind, Mode, Tier, Writer};

use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::hooks::{self, HookMode};
use crate::record::{self, peak, sizes};
use crate::sites::{rates, stack_tree, tallies};
use crate::{allocator, clock, config, fork, leases, live, log, segment, sys, threads, unwind};

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

static ACTIVITY: AtomicU32 = AtomicU32::new(0);
static EPOCH: AtomicU32 = AtomicU32::new(0);
static DISTANCE: AtomicU64 = AtomicU64::new(0);
static RATE: AtomicU32 = AtomicU32::new(0);
static DEPTH: AtomicU32 = AtomicU32::new(Control::DEFAULT_DEPTH);
/// Records of marks that are taken.
static MARK_RECORDS: AtomicU64 = AtomicU64::new(0);
/// Marks of the process so far.
static MARKS: AtomicU64 = AtomicU64::new(0);
/// Events behind the last mark have this millisecond or a later one.
static MARK_MS: AtomicU64 = AtomicU64::new(0);
static RESETS: AtomicU64 = AtomicU64::new(0);
static RECORDING: AtomicU64 = AtomicU64::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
static TABLES: AtomicU32 = AtomicU32::new(0);
static FAST_PATH: AtomicBool = AtomicBool::new(true);

#[inline(always)]
pub(crate) fn activity() -> Activity {
    // Pairs with `set_activity`: a thread that records a block sees the index chosen for it.
    match ACTIVITY.load(Ordering::Acquire) {
        1 => Activity::Sampling,
        2 => Activity::Exact,
        3 => Activity::Log,
        _ => Activity::Idle,
    }
}

/// Changes whenever the distance to the next sample must be drawn again; never 0. A thread that
/// reads a new epoch also reads the new distance and rate.
pub(crate) fn epoch() -> u32 {
    EPOCH.load(Ordering::Acquire)
}

/// Mean distance of samples in bytes; 0 when nothing is sampled.
pub(crate) fn sampling_distance() -> u64 {
    DISTANCE.load(Ordering::Relaxed)
}

/// Number of the sampling distance in force.
pub(crate) fn rate() -> u16 {
    RATE.load(Ordering::Relaxed) as u16
}

/// Deepest stack recorded.
#[inline(always)]
pub(crate) fn depth() -> u32 {
    DEPTH.load(Ordering::Relaxed)
}

/// Whether events may take the fast path.
pub(crate) fn has_fast_path() -> bool {
    FAST_PATH.load(Ordering::Relaxed)
}

/// Marks of the process so far.
pub(crate) fn marks() -> u64 {
    // Pairs with `note_mark`: the millisecond belongs to this mark or a later one.
    MARKS.load(Ordering::Acquire)
}

/// The earliest millisecond of events behind the last mark.
pub(crate) fn mark_ms() -> u64 {
    MARK_MS.load(Ordering::Relaxed)
}

/// Takes the next record for a mark, of `capacity` records.
pub(crate) fn claim_mark(capacity: u64) -> Option<u64> {
    let next = |used: u64| (used < capacity).then_some(used + 1);
    MARK_RECORDS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
}

/// How far marks may set the time of events ahead of the clock.
const MOST_AHEAD_MS: u64 = 20;

/// A mark was set at `now_ms`: every thread notices before its next event, which gets a later
/// millisecond than all events before the mark. So the age of a block determines on which side of
/// the mark it was allocated.
pub(crate) fn note_mark(now_ms: u64) {
    let later = |last: u64| Some(if last > now_ms + MOST_AHEAD_MS { last } else { last.max(now_ms) + 1 });
    let _ = MARK_MS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    MARKS.fetch_add(1, Ordering::Release);
    fork::change_generation();
    // Last: the recorder takes all events before so many marks as written.
    segment::count(Counter::Marks);
}

/// A fixed seed for the sampler, for tests that repeat a run.
pub(crate) fn seed() -> Option<u64> {
    let seed = SEED.load(Ordering::Relaxed);
    (seed != 0).then_some(seed)
}

/// The terms that are wanted: those in force, unless there is something to be applied before.
#[inline(always)]
pub(crate) fn generation() -> u64 {
    fork::generation_under(segment::control(ControlWord::Sequence).load(Ordering::Relaxed))
}

/// Applies the control page if it changed since the last time: two loads when it did not.
#[inline(always)]
pub(crate) fn poll() {
    if segment::control(ControlWord::Sequence).load(Ordering::Relaxed) != fork::applied() {
        apply();
    }
}

/// Applies the control page again if the holder of a lease has ended. Called now and then by every
/// thread that records.
#[inline]
pub(crate) fn check_leases() {
    if leases::have_changed() {
        apply();
    }
}

/// Puts the start-up configuration on the control page of a fresh segment and applies it.
pub(crate) fn begin(wanted: &config::Config) {
    SEED.store(wanted.seed, Ordering::Relaxed);
    TABLES.store(wanted.tables as u32, Ordering::Relaxed);
    FAST_PATH.store(wanted.fast_path, Ordering::Relaxed);
    RESETS.store(0, Ordering::Relaxed);
    RECORDING.store(0, Ordering::Relaxed);
    MARK_RECORDS.store(0, Ordering::Relaxed);
    MARKS.store(0, Ordering::Relaxed);
    MARK_MS.store(0, Ordering::Relaxed);
    peak::init();
    let words = [
        (ControlWord::Mode, wanted.mode as u64),
        (ControlWord::SampleBytes, wanted.sample_bytes),
        (ControlWord::MaxDepth, u64::from(wanted.max_depth)),
        (ControlWord::Index, wanted.index as u64),
        (ControlWord::BlockMillis, 1000),
        (ControlWord::Paranoid, u64::from(wanted.paranoid)),
    ];
    for (word, value) in words {
        segment::control(word).store(value, Ordering::Relaxed);
    }
    leases::begin(wanted.launcher);
    segment::counter(Counter::PeriodStart).store(clock::monotonic_ns(), Ordering::Relaxed);
    segment::control(ControlWord::Sequence).store(FIRST_SEQUENCE, Ordering::Release);
    // Not by `apply`: a forked child comes here in the middle of it, where it holds the turn
    // already, and must not announce itself before its mode is in force.
    let _turn = fork::take_turn();
    put_in_force(&Control::from_words(|word| segment::control(word).load(Ordering::Relaxed)), FIRST_SEQUENCE);
}

/// Even, and not 0: a forked child finds 0 in its wiped page and notices that it is one.
const FIRST_SEQUENCE: u64 = 2;

/// The settings with which a forked child starts: the process's own, and the lease of the process
/// that started it.
pub(crate) fn in_force() -> config::Config {
    let word = |word| segment::control(word).load(Ordering::Relaxed);
    let control = Control::from_words(word);
    config::Config {
        mode: control.mode,
        sample_bytes: control.sample_bytes,
        max_depth: control.max_depth,
        index: control.index,
        paranoid: control.paranoid,
        seed: SEED.load(Ordering::Relaxed),
        tables: Tier::ALL.get(TABLES.load(Ordering::Relaxed) as usize).copied().unwrap_or(Tier::Full),
        fast_path: has_fast_path(),
        launcher: leases::launcher(),
    }
}

/// Timeout in milliseconds of a change that waits for a thread that applies another one: only a
/// stopped thread takes that long.
const PATIENCE_MS: u32 = 10_000;

/// Changes control words for the program, and applies them. A lock orders the threads, so no change
/// is lost. A controller does not wait for the program and may write at the same time: program and
/// controller write different sequences (see [`Control::next_sequence`]), so the last write is
/// applied, and it covers the words of both.
pub(crate) fn change(words: impl FnOnce()) {
    let turn = (0..PATIENCE_MS).find_map(|_| {
        let turn = fork::take_turn();
        if turn.is_none() {
            sys::sleep(1_000_000);
        }
        turn
    });
    let sequence = segment::control(ControlWord::Sequence);
    let before = sequence.load(Ordering::Relaxed);
    sequence.store(before | 1, Ordering::Relaxed);
    fence(Ordering::Release);
    words();
    let after = Control::next_sequence(before, Writer::Program);
    sequence.store(after, Ordering::Release);
    // A controller whose sequence this one replaced has written its words before: read them now.
    fence(Ordering::SeqCst);
    if turn.is_some() {
        put_in_force(&Control::from_words(|word| segment::control(word).load(Ordering::Relaxed)), after);
    }
}

fn put_in_force(wanted: &Control, sequence: u64) {
    enforce(wanted);
    fork::set_applied(sequence);
    segment::counter(Counter::AppliedSequence).store(sequence, Ordering::Release);
}

#[cold]
#[inline(never)]
fn apply() {
    let Some(_turn) = fork::take_turn() else { return };
    if fork::is_forked_child() {
        fork::reinit_in_child();
    }
    let sequence = segment::control(ControlWord::Sequence).load(Ordering::Acquire);
    if sequence.is_multiple_of(2) {
        let wanted = Control::from_words(|word| segment::control(word).load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if segment::control(ControlWord::Sequence).load(Ordering::Relaxed) == sequence {
            put_in_force(&wanted, sequence);
        }
    } else {
        // Being written: not looked at again before it changes.
        fork::set_applied(sequence);
    }
}

fn enforce(wanted: &Control) {
    DEPTH.store(wanted.max_depth, Ordering::Relaxed);
    unwind::set_paranoid(wanted.paranoid);
    if wanted.reset_count != RESETS.swap(wanted.reset_count, Ordering::Relaxed) {
        reset();
    }
    allocator::answer(wanted.allocator_stats_count);
    let Demand { mode, sample_bytes } = leases::demand(wanted);
    let activity = match mode {
        Mode::Off => Activity::Idle,
        Mode::Log => Activity::Log,
        Mode::Exact => Activity::Exact,
        // One block per byte is every block, also those of no bytes.
        Mode::Sampled if sample_bytes <= 1 => Activity::Exact,
        Mode::Sampled => Activity::Sampling,
    };
    let distance = if activity == Activity::Sampling { sample_bytes } else { 0 };
    let number = if distance == 0 { Some(0) } else { rates::number(distance) };
    if let Some(number) = number {
        RATE.store(u32::from(number), Ordering::Relaxed);
        if DISTANCE.swap(distance, Ordering::Relaxed) != distance || epoch() == 0 {
            EPOCH.store(epoch().wrapping_add(1).max(1), Ordering::Release);
        }
    }
    if matches!(activity, Activity::Exact | Activity::Log) {
        let chosen = live::choose(wanted.index);
        show(Counter::Index, chosen as u64);
    }
    let is_other = wanted.recording != RECORDING.swap(wanted.recording, Ordering::Relaxed);
    if activity == Activity::Log && (is_other || self::activity() != Activity::Log) {
        // Milliseconds restart at 0.
        MARK_MS.store(0, Ordering::Relaxed);
        log::begin_recording();
    }
    // Not for samples: a page that has to be made large may be waited for.
    if matches!(activity, Activity::Exact | Activity::Log)
        && self::activity() != activity
        && !segment::is_settled()
    {
        stack_tree::prefer_large_pages();
        tallies::prefer_large_pages();
    }
    set_activity(activity);
    fork::change_generation();
    note_switch(mode);
    show(Counter::Mode, mode as u64);
    show(Counter::SampleBytes, if mode == Mode::Sampled { sample_bytes } else { 0 });
}

/// Counts and dates the changes between off and any other mode.
fn note_switch(mode: Mode) {
    let was_off = segment::counter(Counter::Mode).load(Ordering::Relaxed) == Mode::Off as u64;
    match (was_off, mode == Mode::Off) {
        (true, false) => {
            segment::count(Counter::Starts);
            let now = clock::monotonic_ns();
            show(Counter::StartedNanos, now);
            note_start(now);
        }
        (false, true) => show(Counter::StoppedNanos, clock::monotonic_ns()),
        _ => {}
    }
}

/// Recording was switched on: with the program if nothing was applied before, else later than the
/// start of the period.
fn note_start(now: u64) {
    let read = |counter| segment::counter(counter).load(Ordering::Relaxed);
    if read(Counter::RecordingStart) != 0 {
        return segment::count(Counter::Pauses);
    }
    let period_start = read(Counter::PeriodStart);
    let is_first = read(Counter::AppliedSequence) == 0;
    let late = now.max(period_start.saturating_add(1));
    show(Counter::RecordingStart, if is_first { period_start } else { late });
}

/// Frees are followed before the first block is recorded and until after the last.
fn set_activity(activity: Activity) {
    let store = || {
        record::choose_fast_path(activity);
        ACTIVITY.store(activity as u32, Ordering::Release);
    };
    if matches!(activity, Activity::Exact | Activity::Log) {
        hooks::set_hook_mode(HookMode::Tracing);
        store();
    } else {
        store();
        let followed = live::holds_exact_blocks();
        hooks::set_hook_mode(if followed { HookMode::CountingAllocations } else { HookMode::Counting });
    }
}

fn show(counter: Counter, value: u64) {
    segment::counter(counter).store(value, Ordering::Relaxed);
}

/// A new period: what was counted before is history, which readers pass over.
fn reset() {
    peak::start_period();
    tallies::restart_overflow();
    for thread in [None].into_iter().chain((0..threads::threads_used()).map(Some)) {
        sizes::of_thread(thread).clear();
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
        show(counter, 0);
    }
    let now = clock::monotonic_ns();
    show(Counter::PeriodStart, now);
    let is_on = segment::counter(Counter::Mode).load(Ordering::Relaxed) != Mode::Off as u64;
    show(Counter::RecordingStart, if is_on { now } else { 0 });
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
