//! The dump writer: one per process, locked by the thread that writes a dump. It has the names
//! given so far, and buffers, which would be too large for the stack of a thread.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::ops::{Deref, DerefMut};

use super::Kind;
use super::counts::Counts;
use crate::atomics::{AtomicBool, Ordering};
use crate::fixed_text::FixedText;
use crate::jemalloc::options::{PREFIX_BYTES, options};
use crate::sys;

/// Name of a dump.
pub(super) type Path = FixedText<4096>;

/// Most files that `prof_dump_keep` can count.
pub(crate) const MOST_KEPT: usize = 1024;
/// As jemalloc's.
const BUFFER_BYTES: usize = 64 * 1024;

/// Numbers of one name.
#[derive(Clone, Copy)]
struct Given {
    kind: Kind,
    number: u64,
    number_of_kind: u64,
}

pub(super) struct DumpWriter {
    /// Names given so far, and of each kind (interval, high, manual).
    number: u64,
    of_kind: [u64; 3],
    /// Set by the program; else the option's.
    prefix: Option<FixedText<PREFIX_BYTES>>,
    /// The last names, where only some are kept.
    kept: [Option<Given>; MOST_KEPT],
    given: usize,
    path: Path,
    /// Name of the log, where the program gave one, and logs named so far.
    log_name: Option<Path>,
    logs: u64,
    buffer: [u8; BUFFER_BYTES],
    threads: [Counts; MOST_THREADS],
}

/// Threads that have a line of their own.
const MOST_THREADS: usize = 1024;

struct Place(UnsafeCell<DumpWriter>);
// SAFETY: used by the thread that set `LOCKED`.
unsafe impl Sync for Place {}
static WRITER: Place = Place(UnsafeCell::new(DumpWriter {
    number: 0,
    of_kind: [0; 3],
    prefix: None,
    kept: [None; MOST_KEPT],
    given: 0,
    path: Path::new(),
    log_name: None,
    logs: 0,
    buffer: [0; BUFFER_BYTES],
    threads: [Counts::new(); MOST_THREADS],
}));
static LOCKED: AtomicBool = AtomicBool::new(false);

/// Holds the lock of the dump writer.
pub(super) struct Guard(());

impl Drop for Guard {
    fn drop(&mut self) {
        LOCKED.store(false, Ordering::Release);
    }
}

impl Deref for Guard {
    type Target = DumpWriter;
    fn deref(&self) -> &DumpWriter {
        // SAFETY: see `Place`.
        unsafe { &*WRITER.0.get() }
    }
}

impl DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut DumpWriter {
        // SAFETY: see `Place`.
        unsafe { &mut *WRITER.0.get() }
    }
}

/// Releases the lock: in a forked child the thread that held it does not exist. Files written
/// before are not the child's to remove.
pub(super) fn reset() {
    LOCKED.store(false, Ordering::Relaxed);
    if let Some(mut writer) = DumpWriter::try_lock() {
        writer.forget_names();
    }
}

/// Changes the beginning of names; false when it is too long or the lock is not released in time.
pub(crate) fn set_prefix(prefix: &CStr) -> bool {
    let Some(mut writer) = DumpWriter::lock(super::PATIENCE_MS) else { return false };
    if prefix.count_bytes() >= PREFIX_BYTES {
        return false;
    }
    let mut text = FixedText::new();
    text.push(prefix.to_bytes());
    writer.prefix = Some(text);
    writer.forget_names();
    true
}

/// Sets the name of the next log.
pub(crate) fn set_log_name(name: Option<&CStr>) {
    let Some(mut writer) = DumpWriter::lock(super::PATIENCE_MS) else { return };
    writer.log_name = name.map(|name| {
        let mut path = Path::new();
        path.push(name.to_bytes());
        path
    });
}

/// Hands the name of a log to `write`, by itself `<prefix>.<pid>.<n>.json`; false when there is
/// none.
pub(crate) fn with_log_name(write: impl FnOnce(&CStr) -> bool) -> bool {
    let Some(mut writer) = DumpWriter::lock(super::PATIENCE_MS) else { return false };
    if let Some(path) = writer.log_name.take() {
        return path.as_c_str().is_some_and(write);
    }
    let number = writer.logs;
    writer.logs += 1;
    writer.write_beginning(number);
    writer.path.push(b".json");
    writer.path.as_c_str().is_some_and(write)
}

impl DumpWriter {
    pub(super) fn try_lock() -> Option<Guard> {
        // Constructed lazily: dropping a guard releases the lock.
        (!LOCKED.swap(true, Ordering::Acquire)).then(|| Guard(()))
    }

    pub(super) fn lock(patience_ms: u32) -> Option<Guard> {
        (0..=patience_ms).find_map(|_| {
            let guard = Self::try_lock();
            if guard.is_none() {
                sys::sleep(1_000_000);
            }
            guard
        })
    }

    /// The last name given.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The last name given, the buffer for text and the one for counts.
    pub(super) fn buffers(&mut self) -> (&Path, &mut [u8], &mut [Counts]) {
        (&self.path, &mut self.buffer, &mut self.threads)
    }

    fn forget_names(&mut self) {
        self.kept = [None; MOST_KEPT];
        self.given = 0;
    }

    /// Gives the next name; false when an empty prefix forbids them. Removes the oldest file where
    /// only some are kept.
    pub(super) fn next_path(&mut self, kind: Kind) -> bool {
        let options = options();
        if self.prefix.as_ref().unwrap_or(&options.prefix).as_bytes().is_empty() {
            return false;
        }
        let of_kind = match kind {
            Kind::Interval => self.of_kind.get_mut(0),
            Kind::High => self.of_kind.get_mut(1),
            Kind::Manual => self.of_kind.get_mut(2),
            Kind::Final => None,
        };
        let number_of_kind = of_kind.map_or(0, |number| {
            *number += 1;
            *number - 1
        });
        let given = Given { kind, number: self.number, number_of_kind };
        self.number += 1;
        self.keep(given, options.dump_keep as usize);
        self.write_path(given);
        true
    }

    fn keep(&mut self, given: Given, limit: usize) {
        if limit == 0 {
            return;
        }
        let oldest = self.given.checked_sub(limit).and_then(|old| *self.kept.get(old % MOST_KEPT)?);
        if let Some(oldest) = oldest {
            self.write_path(oldest);
            if let Some(path) = self.path.as_c_str() {
                sys::unlink(path);
            }
        }
        if let Some(slot) = self.kept.get_mut(self.given % MOST_KEPT) {
            *slot = Some(given);
        }
        self.given += 1;
    }

    fn write_path(&mut self, given: Given) {
        self.write_beginning(given.number);
        let path = &mut self.path;
        path.push(b".").push(&[given.kind as u8]);
        if given.kind != Kind::Final {
            path.push_decimal(given.number_of_kind);
        }
        path.push(b".heap");
    }

    /// `<prefix>[.<pid namespace>].<pid>.<number>`.
    fn write_beginning(&mut self, number: u64) {
        let options = options();
        let path = &mut self.path;
        path.clear();
        path.push(self.prefix.as_ref().unwrap_or(&options.prefix).as_bytes());
        if options.pid_namespace {
            path.push(b".").push(namespace(&mut [0; 64]));
        }
        path.push(b".").push_decimal(u64::from(sys::pid())).push(b".").push_decimal(number);
    }
}

/// Number of the pid namespace: the digits of `pid:[4026531836]`.
fn namespace(buffer: &mut [u8; 64]) -> &[u8] {
    let link = sys::read_link(c"/proc/self/ns/pid", buffer);
    let digits = link.strip_prefix(b"pid:[").and_then(|rest| rest.strip_suffix(b"]"));
    digits.unwrap_or(b"0")
}
