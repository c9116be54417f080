//! The spool: batches on disk until every receiver has them.
//!
//! A batch is one file, written under another name, synced and renamed, so that a file is whole or
//! absent. Each receiver has a [`Cursor`], a small file of its own: the batch that it gets next and
//! the entries of it that it has. A batch is removed when no receiver needs it, or when the spool
//! is full: the oldest first, and counted.

mod cursor;

pub(crate) use cursor::Cursor;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heapwise_capture::own_files::create_temporary;

/// A batch in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stored {
    number: u64,
    entries: u64,
    bytes: u64,
}

impl Stored {
    /// `000000000042-7.batch`: the batch 42 has 7 entries.
    fn name(self) -> String {
        format!("{:012}-{}.batch", self.number, self.entries)
    }

    fn from_name(name: &str, bytes: u64) -> Option<Self> {
        let (number, entries) = name.strip_suffix(".batch")?.split_once('-')?;
        Some(Self { number: number.parse().ok()?, entries: entries.parse().ok()?, bytes })
    }
}

/// What the spool holds and has lost since the agent started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpoolCounts {
    /// Batches on disk.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Profiles that were removed before every receiver had them.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<Stored>,
    next_number: u64,
    cursors: BTreeMap<String, Cursor>,
    dropped: u64,
    is_closed: bool,
}

/// The spool.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    limit_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
    /// Held so that no second agent writes here.
    _lock: File,
}

impl Spool {
    /// Opens a directory, and creates it where it is missing (mode 0700). Every receiver of
    /// `receivers` gets what is there from an earlier run and what it does not have.
    ///
    /// # Errors
    /// Those of the file system, and one when another agent has the directory.
    pub fn open(directory: &Path, limit_bytes: u64, receivers: &[&str]) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let lock = File::options().create(true).truncate(false).write(true).open(directory.join("lock"))?;
        if lock.try_lock().is_err() {
            return Err(io::Error::other("another agent uses this spool"));
        }
        let mut state = State { batches: stored(directory)?.into(), ..State::default() };
        for receiver in receivers {
            let cursor = Cursor::load(directory, receiver);
            state.next_number = state.next_number.max(cursor.batch);
            state.cursors.insert((*receiver).to_owned(), cursor);
        }
        let after_last = state.batches.back().map_or(0, |last| last.number + 1);
        state.next_number = state.next_number.max(after_last);
        let spool = Self {
            directory: directory.to_owned(),
            limit_bytes,
            state: Mutex::new(state),
            changed: Condvar::new(),
            _lock: lock,
        };
        spool.shrink(&mut spool.state());
        Ok(spool)
    }

    /// The state; a thread that panicked left it whole, because every change is one assignment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a batch. On a full disk the oldest batches go first; the new one is counted as
    /// dropped when even an empty spool has no room for it.
    ///
    /// # Errors
    /// Those of the file system, after which the batch is lost and counted.
    pub fn append(&self, batch: &[u8], entries: u64) -> io::Result<()> {
        let mut state = self.state();
        let stored = Stored { number: state.next_number, entries, bytes: batch.len() as u64 };
        let result = loop {
            match self.write(&stored.name(), batch) {
                Err(error) if is_full(&error) && !state.batches.is_empty() => self.drop_oldest(&mut state),
                result => break result,
            }
        };
        match &result {
            Ok(()) => {
                state.next_number += 1;
                state.batches.push_back(stored);
                self.shrink(&mut state);
            }
            Err(_) => state.dropped += entries,
        }
        self.changed.notify_all();
        result
    }

    /// Writes a file so that it is whole or absent.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.directory.join("new.tmp");
        let written = create_temporary(&temporary)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&temporary, self.directory.join(name)));
        match &written {
            Ok(()) => File::open(&self.directory)?.sync_all()?,
            Err(_) => drop(fs::remove_file(&temporary)),
        }
        written
    }

    fn drop_oldest(&self, state: &mut State) {
        let Some(oldest) = state.batches.pop_front() else { return };
        let unsent = |cursor: &Cursor| match cursor.batch {
            batch if batch > oldest.number => 0,
            batch if batch == oldest.number => oldest.entries.saturating_sub(cursor.entries),
            _ => oldest.entries,
        };
        // Without a receiver nobody has it.
        state.dropped += state.cursors.values().map(unsent).max().unwrap_or(oldest.entries);
        let _ = fs::remove_file(self.directory.join(oldest.name()));
    }

    /// Removes batches that every receiver has, then the oldest until the rest is within the limit.
    fn shrink(&self, state: &mut State) {
        while let Some(oldest) = state.batches.front().copied() {
            let is_sent = !state.cursors.is_empty()
                && state.cursors.values().all(|cursor| cursor.batch > oldest.number);
            let bytes: u64 = state.batches.iter().map(|stored| stored.bytes).sum();
            if !is_sent && bytes <= self.limit_bytes {
                break;
            }
            self.drop_oldest(state);
        }
    }

    /// The next batch of a receiver and the number of its entries that the receiver has. Waits for
    /// one; `None` when the spool is closed, or empty after `wait`.
    pub(crate) fn next(&self, receiver: &str, wait: Duration) -> Option<(Cursor, Vec<u8>)> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            let cursor = state.cursors.get(receiver).copied().unwrap_or_default();
            let due = state.batches.iter().find(|stored| stored.number >= cursor.batch).copied();
            if let Some(stored) = due {
                let entries = if stored.number == cursor.batch { cursor.entries } else { 0 };
                match fs::read(self.directory.join(stored.name())) {
                    Ok(bytes) => return Some((Cursor { batch: stored.number, entries }, bytes)),
                    // Removed by hand.
                    Err(_) => {
                        let missing = Cursor { batch: stored.number + 1, entries: 0 };
                        state.cursors.insert(receiver.to_owned(), missing);
                        continue;
                    }
                }
            }
            let (again, waited) =
                self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
            state = again;
            if waited.timed_out() {
                return None;
            }
        }
    }

    /// Whether a batch is still in the spool.
    pub(crate) fn has(&self, batch: u64) -> bool {
        self.state().batches.iter().any(|stored| stored.number == batch)
    }

    /// Notes what a receiver has.
    pub(crate) fn advance(&self, receiver: &str, cursor: Cursor) {
        let mut state = self.state();
        state.cursors.insert(receiver.to_owned(), cursor);
        // Without it, a restarted agent sends these entries again.
        let _ = cursor.save(&self.directory, receiver);
        self.shrink(&mut state);
        self.changed.notify_all();
    }

    /// Whether every receiver has everything.
    pub(crate) fn is_sent(&self) -> bool {
        let state = self.state();
        let is_sent = |cursor: &Cursor| state.batches.iter().all(|stored| stored.number < cursor.batch);
        state.cursors.values().all(is_sent)
    }

    /// What it holds and has lost.
    #[must_use]
    pub fn counts(&self) -> SpoolCounts {
        let state = self.state();
        SpoolCounts {
            batches: state.batches.len() as u64,
            bytes: state.batches.iter().map(|stored| stored.bytes).sum(),
            dropped: state.dropped,
        }
    }

    /// Ends the waits of receivers.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until the spool is closed, or for `time`; whether it is closed.
    pub(crate) fn wait_closed(&self, time: Duration) -> bool {
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, time, |state| !state.is_closed);
        waited.map_or(true, |(state, _)| state.is_closed)
    }
}

/// Whether the disk is full, or the user's share of it.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The batches of a directory, oldest first.
fn stored(directory: &Path) -> io::Result<Vec<Stored>> {
    let mut found: Vec<Stored> = fs::read_dir(directory)?
        .flatten()
        .filter_map(|entry| Stored::from_name(entry.file_name().to_str()?, entry.metadata().ok()?.len()))
        .collect();
    found.sort_by_key(|stored| stored.number);
    Ok(found)
}

#[cfg(test)]
mod tests;
