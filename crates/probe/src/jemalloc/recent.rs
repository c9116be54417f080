//! The last recorded blocks one by one (`prof_recent_alloc_max`), and the log of those that were
//! freed (`prof_log`).

mod report;
mod ring;

use core::ffi::CStr;

pub(crate) use report::write_recent;

use crate::atomics::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use crate::inside::{Inside, enter};
use crate::jemalloc::options::options;
use crate::json::Sink;
use crate::record::{Block, usable};
use crate::session::Session;
use crate::sys::File;
use crate::{clock, dump};
use ring::{Record, Ring};

/// The recent blocks of a session. Zeroed memory is valid: nothing is kept.
pub(crate) struct Recent {
    /// Recent blocks are kept. Read on every recorded event.
    is_keeping: AtomicBool,
    /// Blocks that are kept; negative: as many as there is room for.
    most: AtomicI64,
    /// Moment the log was started; 0: there is none.
    log_start: AtomicU64,
    ring: Ring,
}

/// By the clock of `prof_time_resolution`.
fn now() -> u64 {
    if options().high_resolution { clock::realtime_ns() } else { clock::coarse_ns() }
}

impl Recent {
    /// Takes over the options of the start.
    pub(crate) fn begin(&self, session: &Session) {
        if options().prof {
            self.most.store(options().recent_alloc_max, Ordering::Relaxed);
            if options().log {
                self.log_start.store(now().max(1), Ordering::Relaxed);
            }
            self.choose(session);
        }
    }

    /// Takes over what the parent of a forked child set; it has no blocks of its parent's.
    pub(crate) fn inherit(&self, session: &Session, parent: &Recent) {
        self.most.store(parent.most(), Ordering::Relaxed);
        self.log_start.store(parent.log_start.load(Ordering::Relaxed), Ordering::Relaxed);
        self.choose(session);
    }

    /// Unmaps the ring. No thread may use it afterwards.
    pub(crate) fn release(&self) {
        self.ring.release();
    }

    /// Decides whether blocks are kept.
    fn choose(&self, session: &Session) {
        let keeping = self.most() != 0 || self.has_log();
        self.is_keeping.store(keeping && self.ring.prepare(), Ordering::Relaxed);
        session.fork.change_generation();
    }

    /// Whether something is kept.
    pub(crate) fn is_keeping(&self) -> bool {
        self.is_keeping.load(Ordering::Relaxed)
    }

    /// Whether a log runs.
    pub(crate) fn has_log(&self) -> bool {
        self.log_start.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn most(&self) -> i64 {
        self.most.load(Ordering::Relaxed)
    }
}

/// Changes how many are kept; false for a number that makes no sense.
pub(crate) fn set_most(session: &Session, most: i64) -> bool {
    if most < -1 {
        return false;
    }
    session.recent.most.store(most, Ordering::Relaxed);
    session.recent.choose(session);
    true
}

/// A block was recorded: one load when nothing is kept.
#[inline(always)]
pub(crate) fn allocated(session: &Session, block: &Block, node: u32, thread: u32) {
    if session.recent.is_keeping() {
        note(session, block, node, thread);
    }
}

#[cold]
fn note(session: &Session, block: &Block, node: u32, thread: u32) {
    let Block { address, size, source, .. } = *block;
    let usable = usable::measured(address, size, source.family).unwrap_or(size);
    let record = Record { address, size, usable, born_ns: now(), node, thread, ..Record::default() };
    session.recent.ring.add(&session.segment, record);
}

/// A recorded block was freed.
#[inline(always)]
pub(crate) fn freed(session: &Session, address: u64, thread: u32) {
    if session.recent.is_keeping() {
        note_freed(session, address, thread);
    }
}

#[cold]
fn note_freed(session: &Session, address: u64, thread: u32) {
    session.recent.ring.end(&session.segment, address, thread, now());
}

/// Starts the log; false when there is one, or when a name is given that cannot be used.
pub(crate) fn start_log(session: &Session, name: Option<&CStr>) -> bool {
    let start = &session.recent.log_start;
    let started = start.compare_exchange(0, now().max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if started {
        dump::set_log_name(session, name);
        session.recent.choose(session);
    }
    started
}

/// Ends the log and writes it; false when there is none, or the file cannot be written.
pub(crate) fn stop_log(inside: &mut Inside) -> bool {
    let start = inside.recent.log_start.swap(0, Ordering::Relaxed);
    if start == 0 {
        return false;
    }
    let file = dump::next_log_file(inside);
    let written = file.is_some_and(|file: File| {
        let mut sink = Sink::file(inside, &file);
        report::write_log(&mut sink, start, now());
        sink.flush();
        !sink.failed
    });
    inside.recent.choose(inside);
    written
}

/// The process ends: a log that runs is written.
pub(crate) fn at_exit() {
    if let Some(mut inside) = enter() {
        stop_log(&mut inside);
    }
}
