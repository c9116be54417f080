//! The last recorded blocks one by one (`prof_recent_alloc_max`), and the log of those that were
//! freed (`prof_log`).

mod report;
mod ring;

use core::ffi::CStr;

pub(crate) use report::write_recent;

use crate::atomics::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use crate::jemalloc::options::options;
use crate::json::Sink;
use crate::sys::File;
use crate::{clock, dump, fork, hooks};
use ring::Record;

/// Blocks that are kept; negative: as many as there is room for.
static MOST: AtomicI64 = AtomicI64::new(0);
/// Moment the log was started; 0: there is none.
static LOG_START: AtomicU64 = AtomicU64::new(0);
/// Recent blocks are kept. Read on every recorded event.
static KEEPING: AtomicBool = AtomicBool::new(false);

/// Takes over the options of the start; a forked child has no blocks of its parent's.
pub(crate) fn begin() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    ring::forget();
    if !STARTED.swap(true, Ordering::Relaxed) && options().prof {
        MOST.store(options().recent_alloc_max, Ordering::Relaxed);
        if options().log {
            LOG_START.store(now().max(1), Ordering::Relaxed);
        }
        settle();
    }
}

fn settle() {
    let keeping = MOST.load(Ordering::Relaxed) != 0 || LOG_START.load(Ordering::Relaxed) != 0;
    KEEPING.store(keeping && ring::prepare(), Ordering::Relaxed);
    fork::change_generation();
}

/// Whether something is kept.
pub(crate) fn is_keeping() -> bool {
    KEEPING.load(Ordering::Relaxed)
}

pub(crate) fn most() -> i64 {
    MOST.load(Ordering::Relaxed)
}

/// Changes how many are kept; false for a number that makes no sense.
pub(crate) fn set_most(most: i64) -> bool {
    if most < -1 {
        return false;
    }
    MOST.store(most, Ordering::Relaxed);
    settle();
    true
}

/// By the clock of `prof_time_resolution`.
fn now() -> u64 {
    if options().high_resolution { clock::realtime_ns() } else { clock::coarse_ns() }
}

/// A block was recorded: one load when nothing is kept.
#[inline(always)]
pub(crate) fn allocated(address: u64, size: u64, node: u32, thread: u32) {
    if KEEPING.load(Ordering::Relaxed) {
        note(address, size, node, thread);
    }
}

#[cold]
fn note(address: u64, size: u64, node: u32, thread: u32) {
    let usable = hooks::usable_size(address as *mut _) as u64;
    ring::add(Record { address, size, usable, born_ns: now(), node, thread, ..Record::default() });
}

/// A recorded block was freed.
#[inline(always)]
pub(crate) fn freed(address: u64, thread: u32) {
    if KEEPING.load(Ordering::Relaxed) {
        note_freed(address, thread);
    }
}

#[cold]
fn note_freed(address: u64, thread: u32) {
    ring::end(address, thread, now());
}

/// Starts the log; false when there is one, or when a name is given that cannot be used.
pub(crate) fn start_log(name: Option<&CStr>) -> bool {
    let started = LOG_START.compare_exchange(0, now().max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if started {
        dump::set_log_name(name);
        settle();
    }
    started
}

/// Ends the log and writes it; false when there is none, or the file cannot be written.
pub(crate) fn stop_log() -> bool {
    let start = LOG_START.swap(0, Ordering::Relaxed);
    if start == 0 {
        return false;
    }
    let written = dump::with_log_name(|path| {
        let Ok(file) = File::create(path) else { return false };
        let mut sink = Sink::file(&file);
        report::write_log(&mut sink, start, now());
        sink.flush();
        !sink.failed
    });
    settle();
    written
}

/// The process ends: a log that runs is written.
pub(crate) fn at_exit() {
    if LOG_START.load(Ordering::Relaxed) != 0 {
        stop_log();
    }
}
