//! Heap dumps that the probe writes itself: jemalloc's text under jemalloc's names, without
//! allocating.
//!
//! One thread writes at a time. Automatic dumps that find another one under way are skipped (it has
//! the same numbers); requested dumps wait, with a timeout: the writer may be a thread that the
//! program stopped.

mod counts;
mod ending;
mod functions;
mod leaks;
mod plain_name;
mod runtime_allocs;
pub(crate) mod size_class;
mod suppressions;
mod text;
mod triggers;
mod writer;

use core::ffi::CStr;

use heapwise_format::segment::Counter;

use crate::atomics::{AtomicU64, Ordering};
use crate::clock;
use crate::config::say;
use crate::inside::Inside;
use crate::jemalloc::options::options;
use crate::session::Session;
use crate::sys::File;
use ending::Ending;
pub(crate) use ending::{at_exit, before_exit, watch_exit};
use suppressions::Suppressions;
use text::Summary;
pub(crate) use text::place;
use triggers::Triggers;
pub(crate) use triggers::{interval, notice};
use writer::{DumpWriter, Writer};
pub(crate) use writer::{MOST_KEPT, next_log_file, set_log_name, set_prefix};

/// Why a dump was written; the letter in its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// So many bytes were allocated.
    Interval = b'i' as isize,
    /// More is live than ever before.
    High = b'u' as isize,
    /// The program requested it.
    Manual = b'm' as isize,
    /// The program ends.
    Final = b'f' as isize,
}

/// Times of files are those of the last tick.
const FILE_TIME_NS: u64 = 10_000_000;

/// Longest wait for another dump.
const PATIENCE_MS: u32 = 10_000;

/// The dumps of a session. Zeroed memory is valid: none so far.
pub(crate) struct Dump {
    /// Wall-clock nanoseconds when the session began, less the resolution of times of files.
    began_ns: AtomicU64,
    triggers: Triggers,
    ending: Ending,
    writer: Writer,
}

impl Dump {
    /// Takes over the options of the start.
    pub(crate) fn begin(&self) {
        self.began_ns.store(clock::realtime_ns().saturating_sub(FILE_TIME_NS), Ordering::Relaxed);
        self.start_triggers(options().prof && options().gdump);
    }

    /// Takes over what the parent of a forked child set: its files are its own.
    pub(crate) fn inherit(&self, parent: &Dump) {
        self.began_ns.store(clock::realtime_ns().saturating_sub(FILE_TIME_NS), Ordering::Relaxed);
        self.writer.inherit(&parent.writer);
        self.start_triggers(parent.is_at_highs());
    }
}

/// Writes a dump that no caller waits for.
fn automatic(session: &Session, kind: Kind) {
    if let Some(mut writer) = session.dump.writer.try_lock() {
        write_announced(session, &mut writer, kind);
    }
}

/// Writes a dump for the program; under the next name when it gives none.
pub(crate) fn manual(inside: &Inside, name: Option<&CStr>) -> bool {
    let Some(mut writer) = inside.dump.writer.lock(PATIENCE_MS) else { return false };
    let began_ns = inside.dump.began_ns.load(Ordering::Relaxed);
    (name.is_some() || writer.next_path(Kind::Manual, began_ns))
        && write(inside, &mut writer, Kind::Manual, name).is_some()
}

/// Writes under the next name, and reports a file that cannot be created.
fn write_announced(session: &Session, writer: &mut DumpWriter, kind: Kind) -> Option<Summary> {
    if !writer.next_path(kind, session.dump.began_ns.load(Ordering::Relaxed)) {
        return None;
    }
    let summary = write(session, writer, kind, None);
    if summary.is_none() {
        say(&[b"failed to open \"", writer.path().as_bytes(), b"\""]);
    }
    summary
}

/// Writes a file, under the last name given unless it has its own; `None`, counted, when it cannot
/// be created. The file is complete and closed afterwards.
fn write(session: &Session, writer: &mut DumpWriter, kind: Kind, name: Option<&CStr>) -> Option<Summary> {
    let (path, buffer, threads) = writer.buffers();
    let file = match name {
        Some(name) => File::create(name).ok(),
        None => path.as_c_str().and_then(|path| File::create_unlinked(path).ok()),
    };
    let Some(file) = file else {
        session.segment.count(Counter::FailedDumps);
        return None;
    };
    let known = if kind == Kind::Final && options().leak { Suppressions::of_options(session) } else { None };
    let (summary, complete) = text::write(session, &file, buffer, threads, known.as_ref());
    session.segment.count(if complete { Counter::Dumps } else { Counter::FailedDumps });
    Some(summary)
}
