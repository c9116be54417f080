//! The state of a process when its recording was stopped, by `stop` or with the last lease: a file
//! beside its segment.
//!
//! After a stop the probe still subtracts frees, so that a later start finds a true account. What
//! was live when recording stopped is in this file: readers show it until recording starts again.

use std::fs::{self, DirBuilder};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use heapwise_format::segment::{Counter, Mode};
use heapwise_profile::snapshot::Snapshot;
use heapwise_profile::{Profile, compact};

use crate::control::Applied;
use crate::failure::{Failure, Outcome};
use crate::lease::{self, Held};
use crate::own_files;
use crate::segment_file::process_of;
use crate::segments::{self, SegmentFile};

/// Ending of the files' names, before their numbers.
const ENDING: &str = "stopped";

/// `<pid>-<starttime>.stopped-<start>-<period>`: another start, or a reset, makes the file useless.
fn path(segment: &SegmentFile, snapshot: &Snapshot<'_, SegmentFile>) -> PathBuf {
    let (start, period) = (snapshot.counter(Counter::Starts), snapshot.counter(Counter::Period));
    place(segment, snapshot).with_extension(format!("{ENDING}-{start}-{period}"))
}

/// The segment's place; of a segment elsewhere, the place that it would have among this user's.
fn place(segment: &SegmentFile, snapshot: &Snapshot<'_, SegmentFile>) -> PathBuf {
    let own = segments::directories().into_iter().next().filter(|_| segment.is_foreign);
    own.map_or_else(|| segment.path().to_owned(), |own| own.join(process_of(snapshot).to_string()))
}

/// Keeps the profile of a process that records, before its recording is stopped. A process that
/// other controllers keep recording is not stopped.
pub fn save(segment: &SegmentFile) -> Outcome {
    let snapshot = segment.snapshot()?;
    if snapshot.mode() == Mode::Off || !lease::of_others(segment)?.is_empty() {
        return Ok(());
    }
    let encoded = compact::encode(&snapshot.profile());
    let path = path(segment, &snapshot);
    let place = place(segment, &snapshot);
    if let Some(directory) = place.parent().filter(|_| segment.is_foreign) {
        // It may exist; what cannot be made cannot be written to below.
        let _ = DirBuilder::new().mode(0o700).create(directory);
    }
    remove_all_of(&place);
    let temporary = path.with_extension(format!("{ENDING}.{}.tmp", std::process::id()));
    let failed = |error: std::io::Error| Failure::file(&path, format!("cannot keep the profile: {error}"));
    let written = own_files::create_temporary(&temporary).and_then(|mut file| file.write_all(&encoded));
    written.and_then(|()| fs::rename(&temporary, &path)).map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

/// Gives a lease up. What was recorded stays readable where recording ends with the lease.
pub fn release(lease: Held) -> Outcome<Applied> {
    let segment = lease.segment();
    if segment.snapshot()?.control().is_some_and(|own| own.own_demand().mode == Mode::Off) {
        // Without room for the file, readers see the blocks that were not freed since.
        let _ = save(segment);
    }
    lease.release()
}

/// The profile from when recording was stopped; `None` while the process records, and when it was
/// not stopped by a controller.
pub fn load(segment: &SegmentFile) -> Option<Profile> {
    let snapshot = segment.snapshot().ok()?;
    if snapshot.mode() != Mode::Off || lease::demand(&snapshot).mode != Mode::Off {
        return None;
    }
    let bytes = own_files::read(&path(segment, &snapshot))?;
    heapwise_profile::read(&bytes).ok()
}

/// Removes what was kept for a segment.
fn remove_all_of(segment: &Path) {
    let (Some(directory), Some(stem)) = (segment.parent(), segment.file_stem()) else { return };
    let stem = stem.to_string_lossy();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if is_of(&entry.file_name().to_string_lossy()).is_some_and(|of| of == stem) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The segment that a file of this kind belongs to, by both names without their endings.
pub(crate) fn is_of(name: &str) -> Option<&str> {
    let (stem, rest) = name.split_once('.')?;
    rest.starts_with(ENDING).then_some(stem)
}
