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
use crate::session::Session;
use crate::sys::{self, File};

/// Name of a dump.
pub(super) type Path = FixedText<4096>;

/// Most files that `prof_dump_keep` can count.
pub(crate) const MOST_KEPT: usize = 1024;
/// Most names that are passed over at once.
const MOST_PASSED_OVER: usize = 1000;
/// As jemalloc's.
const BUFFER_BYTES: usize = 64 * 1024;

/// The letter and the numbers of one name. Zeroed memory is valid.
#[derive(Clone, Copy)]
struct Given {
    letter: u8,
    number: u64,
    number_of_kind: u64,
}

/// Zeroed memory is valid: no names so far.
pub(super) struct DumpWriter {
    /// Names given so far, and of each kind (interval, high, manual).
    number: u64,
    of_kind: [u64; 3],
    /// Set by the program; else the option's.
    prefix: FixedText<PREFIX_BYTES>,
    has_prefix: bool,
    /// The last names, where only some are kept.
    kept: [Given; MOST_KEPT],
    given: usize,
    path: Path,
    /// Name of the log, where the program gave one, and logs named so far.
    log_name: Path,
    has_log_name: bool,
    logs: u64,
    buffer: [u8; BUFFER_BYTES],
    threads: [Counts; MOST_THREADS],
}

/// Threads that have a line of their own.
const MOST_THREADS: usize = 1024;

/// The dump writer of a session, and its lock. Zeroed memory is valid.
pub(super) struct Writer {
    is_locked: AtomicBool,
    writer: UnsafeCell<DumpWriter>,
}

// SAFETY: used by the thread that set `is_locked`.
unsafe impl Sync for Writer {}

/// Holds the lock of the dump writer.
pub(super) struct Guard<'a>(&'a Writer);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.is_locked.store(false, Ordering::Release);
    }
}

impl Deref for Guard<'_> {
    type Target = DumpWriter;
    fn deref(&self) -> &DumpWriter {
        // SAFETY: see `Writer`.
        unsafe { &*self.0.writer.get() }
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut DumpWriter {
        // SAFETY: see `Writer`.
        unsafe { &mut *self.0.writer.get() }
    }
}

impl Writer {
    pub(super) fn try_lock(&self) -> Option<Guard<'_>> {
        // Constructed lazily: dropping a guard releases the lock.
        (!self.is_locked.swap(true, Ordering::Acquire)).then(|| Guard(self))
    }

    pub(super) fn lock(&self, patience_ms: u32) -> Option<Guard<'_>> {
        (0..=patience_ms).find_map(|_| {
            let guard = self.try_lock();
            if guard.is_none() {
                sys::sleep(1_000_000);
            }
            guard
        })
    }

    /// Takes over names and numbers from the parent of a forked child, whose lock may be held by a
    /// thread that does not exist here. Files written before are not the child's to remove.
    pub(super) fn inherit(&self, parent: &Writer) {
        // SAFETY: the child has one thread. A thread of the parent may have been writing a name:
        // any bytes of it are valid.
        let before = unsafe { &*parent.writer.get() };
        if let Some(mut own) = self.try_lock() {
            (own.number, own.of_kind, own.logs) = (before.number, before.of_kind, before.logs);
            (own.prefix, own.has_prefix) = (before.prefix, before.has_prefix);
            (own.log_name, own.has_log_name) = (before.log_name, before.has_log_name);
        }
    }
}

/// Changes the beginning of names; false when it is too long or the lock is not released in time.
pub(crate) fn set_prefix(session: &Session, prefix: &CStr) -> bool {
    let Some(mut writer) = session.dump.writer.lock(super::PATIENCE_MS) else { return false };
    if prefix.count_bytes() >= PREFIX_BYTES {
        return false;
    }
    writer.prefix.clear();
    writer.prefix.push(prefix.to_bytes());
    writer.has_prefix = true;
    writer.given = 0;
    true
}

/// Sets the name of the next log.
pub(crate) fn set_log_name(session: &Session, name: Option<&CStr>) {
    let Some(mut writer) = session.dump.writer.lock(super::PATIENCE_MS) else { return };
    writer.log_name.clear();
    writer.log_name.push(name.unwrap_or(c"").to_bytes());
    writer.has_log_name = name.is_some();
}

/// Creates the file of a log, by itself `<prefix>.<pid>.<n>.json`; `None` when that fails.
pub(crate) fn next_log_file(session: &Session) -> Option<File> {
    let mut writer = session.dump.writer.lock(super::PATIENCE_MS)?;
    if core::mem::take(&mut writer.has_log_name) {
        return File::create(writer.log_name.as_c_str()?).ok();
    }
    let number = writer.logs;
    writer.logs += 1;
    writer.write_beginning(number);
    writer.path.push(b".json");
    File::create(writer.path.as_c_str()?).ok()
}

impl DumpWriter {
    /// The last name given.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The last name given, the buffer for text and the one for counts.
    pub(super) fn buffers(&mut self) -> (&Path, &mut [u8], &mut [Counts]) {
        (&self.path, &mut self.buffer, &mut self.threads)
    }

    fn prefix(&self) -> &[u8] {
        if self.has_prefix { self.prefix.as_bytes() } else { options().prefix.as_bytes() }
    }

    /// Gives the next name; false when an empty prefix forbids them. Removes the oldest file where
    /// only some are kept. Passes over names of files that were written since `began_ns`: a
    /// jemalloc inside the program uses the same names. Files of earlier processes are replaced, as
    /// jemalloc does.
    pub(super) fn next_path(&mut self, kind: Kind, began_ns: u64) -> bool {
        if self.prefix().is_empty() {
            return false;
        }
        for _ in 0..MOST_PASSED_OVER {
            let given = self.next_given(kind);
            self.write_path(given);
            if self.path.as_c_str().is_none_or(|path| !sys::is_changed_since(path, began_ns)) {
                self.keep(given, options().dump_keep as usize);
                self.write_path(given);
                return true;
            }
        }
        false
    }

    fn next_given(&mut self, kind: Kind) -> Given {
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
        self.number += 1;
        Given { letter: kind as u8, number: self.number - 1, number_of_kind }
    }

    fn keep(&mut self, given: Given, limit: usize) {
        if limit == 0 {
            return;
        }
        let oldest = self.given.checked_sub(limit).and_then(|old| self.kept.get(old % MOST_KEPT));
        if let Some(oldest) = oldest.copied() {
            self.write_path(oldest);
            if let Some(path) = self.path.as_c_str() {
                sys::unlink(path);
            }
        }
        if let Some(slot) = self.kept.get_mut(self.given % MOST_KEPT) {
            *slot = given;
        }
        self.given += 1;
    }

    fn write_path(&mut self, given: Given) {
        self.write_beginning(given.number);
        let path = &mut self.path;
        path.push(b".").push(&[given.letter]);
        if given.letter != Kind::Final as u8 {
            path.push_decimal(given.number_of_kind);
        }
        path.push(b".heap");
    }

    /// `<prefix>[.<pid namespace>].<pid>.<number>`.
    fn write_beginning(&mut self, number: u64) {
        let options = options();
        let path = &mut self.path;
        path.clear();
        path.push(if self.has_prefix { self.prefix.as_bytes() } else { options.prefix.as_bytes() });
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
