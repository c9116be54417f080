//! Receiving batches: into the log, acknowledged, then into segments.

mod known;
mod receipt;

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heapwise_agent::batch::{self, Entry, Header};
use heapwise_capture::failure::{Failure, Outcome};
use heapwise_profile::read;

use crate::compaction;
use crate::content_hash;
use crate::day::{self, HOUR_NS};
use crate::log_file::Log;
use crate::manifest::Manifest;
use crate::retention::Retention;
use crate::rows::{Origin, Rows};
use crate::segment_writer;
use crate::star;
use crate::store::Store;
use known::Known;
pub use receipt::{Receipt, Refusal};

/// Memory of rows that wait for a flush. A server whose store cannot be reached refuses batches
/// beyond it.
const MOST_PENDING_BYTES: usize = 1 << 30;

/// The writing side of a store. There is one per store.
#[derive(Debug)]
pub struct Ingest {
    store: Store,
    log_directory: PathBuf,
    retention: Retention,
    received: Mutex<Received>,
    /// Changed by flushes and compactions only.
    manifest: Mutex<Manifest>,
    /// Locked: a second server of the same directory would lose data of the first.
    _lock: File,
}

/// What arrived since the last flush.
#[derive(Debug)]
struct Received {
    log: Log,
    pending: Rows,
    known: Known,
    total: Receipt,
}

impl Ingest {
    /// Opens the store and replays the log in `directory`.
    pub fn open(store: Store, directory: &Path, retention: Retention) -> Outcome<Self> {
        let lock = lock(directory)?;
        let mut manifest = Manifest::load(&store)?;
        manifest.writer = writer(directory)?;
        // From here on, the saves of another server of this store fail. So no manifest that it
        // writes can have a segment that is deleted here.
        manifest.save(&store)?;
        manifest.delete_strays(&store)?;
        let flushed = manifest.flushed_logs.get(&manifest.writer).copied().unwrap_or(0);
        let mut known = Known::load(&store, &manifest)?;
        let mut pending = Rows::default();
        let log_directory = directory.join("log");
        let log = Log::open(&log_directory, flushed, |record| {
            for entry in batch::read(record).map_while(Result::ok) {
                // What was refused when it arrived is not in the log.
                if let Ok(rows) = rows(&entry, &|id| known.has_stack(id)) {
                    known.keep_new(rows, &mut pending);
                }
            }
            Ok(())
        })?;
        let received = Mutex::new(Received { log, pending, known, total: Receipt::default() });
        Ok(Self { store, log_directory, retention, received, manifest: Mutex::new(manifest), _lock: lock })
    }

    /// Takes a batch: when this returns, the log has it.
    pub fn accept(&self, bytes: &[u8], now_ns: i64) -> Result<Receipt, Refusal> {
        let mut receipt = Receipt::default();
        let mut readable = Vec::new();
        let expired_ns = self.retention.minutes_from(now_ns);
        for entry in batch::read(bytes) {
            // The entries before a torn one are whole.
            let Ok(entry) = entry else {
                receipt.refused += 1;
                break;
            };
            if time_ns(&entry.header) < expired_ns {
                receipt.expired += 1;
                continue;
            }
            let is_known = |id: u64| self.received().known.has_stack(id);
            match rows(&entry, &is_known) {
                Ok(rows) => readable.push((entry, rows)),
                Err(_) => receipt.refused += 1,
            }
        }
        if readable.is_empty() && receipt.expired == 0 {
            return Err(Refusal::Unreadable);
        }
        let mut received = self.received();
        if received.pending.memory_bytes() > MOST_PENDING_BYTES {
            return Err(Refusal::Busy);
        }
        let is_new = |(entry, _): &(Entry, Rows)| !received.known.has_profile(profile_id(&entry.header));
        let (fresh, repeated): (Vec<_>, Vec<_>) = readable.into_iter().partition(is_new);
        receipt.known += repeated.len() as u64;
        let mut record = Vec::new();
        fresh.iter().for_each(|(entry, _)| entry.append_to(&mut record));
        if !fresh.is_empty() {
            received.log.append(&record).map_err(Refusal::Log)?;
        }
        let Received { pending, known, total, .. } = &mut *received;
        for (_, rows) in fresh {
            // An id may be in one batch twice.
            match known.keep_new(rows, pending) {
                true => receipt.accepted += 1,
                false => receipt.known += 1,
            }
        }
        total.add(&receipt);
        Ok(receipt)
    }

    /// Writes what arrived into segments; the number of profiles.
    pub fn flush(&self) -> Outcome<usize> {
        let mut manifest = self.manifest();
        let (rows, through) = {
            let mut received = self.received();
            if received.pending.is_empty() {
                return Ok(0);
            }
            let through = received.log.rotate()?;
            (std::mem::take(&mut received.pending), through)
        };
        let written = self.commit(&mut manifest, &rows, through);
        if written.is_err() {
            let mut received = self.received();
            let newer = std::mem::replace(&mut received.pending, rows);
            received.pending.append(newer);
            return written.map(|()| 0);
        }
        Log::delete_through(&self.log_directory, through)?;
        Ok(rows.profiles.len())
    }

    /// Puts segments, then the manifest that has them.
    fn commit(&self, manifest: &mut Manifest, rows: &Rows, through: u64) -> Outcome {
        let mut next = manifest.clone();
        next.segments.extend(segment_writer::write(&self.store, rows, &next.label())?);
        next.flushed_logs.insert(next.writer.clone(), through);
        let hours = rows.profiles.iter().map(|row| day::floor(row.origin.time_ns, HOUR_NS));
        next.stale_hours.extend(hours);
        next.save(&self.store)?;
        *manifest = next;
        Ok(())
    }

    /// Merges small segments, writes roll-ups, deletes what has expired.
    pub fn compact(&self, now_ns: i64) -> Outcome<compaction::Work> {
        let mut manifest = self.manifest();
        let work = compaction::run(&self.store, &mut manifest, &self.retention, now_ns)?;
        if work.expired > 0 {
            // Ids of expired profiles are not needed: a profile that old is not accepted.
            let stored = Known::load(&self.store, &manifest)?;
            let Received { known, pending, .. } = &mut *self.received();
            known.remove_expired(stored, pending);
        }
        Ok(work)
    }

    /// Whether another server has taken the store over. This one cannot write segments any more;
    /// its log keeps what is not in segments.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        let own = self.manifest().generation;
        Manifest::load(&self.store).is_ok_and(|stored| stored.generation != own)
    }

    /// Sums over all batches since the start.
    #[must_use]
    pub fn total(&self) -> Receipt {
        self.received().total
    }

    /// The manifest as of now.
    #[must_use]
    pub fn current(&self) -> Manifest {
        self.manifest().clone()
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(directory: &Path) -> Outcome<File> {
    std::fs::create_dir_all(directory).map_err(|why| Failure::file(directory, why))?;
    let path = directory.join("lock");
    let file = File::create(&path).map_err(|why| Failure::file(&path, why))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(Failure::file(&path, "another heapwise-fleet writes to this directory")),
    }
}

/// The name of a data directory, which is made once. Its log files have numbers of their own.
fn writer(directory: &Path) -> Outcome<String> {
    let path = directory.join("writer");
    if let Ok(name) = std::fs::read_to_string(&path)
        && !name.is_empty()
    {
        return Ok(name);
    }
    let name = format!("{:016x}", RandomState::new().build_hasher().finish());
    std::fs::write(&path, &name).map_err(|why| Failure::file(&path, why))?;
    Ok(name)
}

/// The rows of an entry; an error when its profile cannot be read.
fn rows(entry: &Entry, is_known: &dyn Fn(u64) -> bool) -> Result<Rows, heapwise_profile::ReadError> {
    let profile = read(&entry.profile)?;
    Ok(star::rows(Arc::new(origin(&entry.header)), &profile, is_known))
}

fn time_ns(header: &Header) -> i64 {
    i64::try_from(header.time_ns).unwrap_or(i64::MAX)
}

fn profile_id(header: &Header) -> u64 {
    (header.id.0 ^ (header.id.0 >> 64)) as u64
}

fn origin(header: &Header) -> Origin {
    let numbers = [u64::from(header.pid), header.start_ns].map(u64::to_le_bytes);
    Origin {
        profile_id: profile_id(header),
        process_id: content_hash::of_parts(&[header.labels.host.as_bytes(), &numbers[0], &numbers[1]]),
        time_ns: time_ns(header),
        start_ns: i64::try_from(header.start_ns).unwrap_or(i64::MAX),
        service: header.labels.service.clone(),
        release: header.labels.release.clone(),
        host: header.labels.host.clone(),
        container: header.labels.container.clone(),
        program: header.program.clone(),
        pid: header.pid,
        end: header.end.map_or_else(String::new, |end| end.to_string()),
    }
}

#[cfg(test)]
mod tests;
