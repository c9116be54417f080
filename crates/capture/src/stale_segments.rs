//! Removes segments of ended processes, so that the directory has a bound.
//!
//! A segment outlives its process: the last state of a killed program can be read. Commands that
//! search for processes first remove surplus segments. The probe itself removes only its own name
//! (`crates/probe/src/segment/create.rs`).
//!
//! *Which processes have ended*: no process has their segment mapped or open for writing
//! ([`file_writers`]), and `/proc` does not list them. The first rule holds across pid namespaces,
//! where a pid is not unique, and keeps segments that a recorder or a report reads; on overlayfs,
//! where the system does not count mappings, the second one still holds. When in doubt, a segment
//! stays.
//!
//! *What stays*: of those that exited and of those that did not, each, the last [`MOST_KEPT`] and
//! no more than a [`SHARE`]th of the file system, but always the last one. Two accounts, so that
//! many programs that exit do not push out the one that was killed.
//!
//! A reader of all segments, `heapwise run --children`, holds the directory's shared lock
//! meanwhile.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use heapwise_format::paths::{ProcessId, SUFFIX};
use heapwise_format::segment::{COUNTERS_OFFSET, Counter, Header, State};
use rustix::fs::OFlags;

use crate::clock::Clock;
use crate::own_files::is_own_folder;
use crate::{file_writers, process, segments, stopped};

/// Segments of either kind that stay at most.
const MOST_KEPT: usize = 32;
/// Which part of the file system they may take.
const SHARE: u64 = 64;
/// And no more than this, however large that is.
const MOST_BYTES: u64 = 512 << 20;

/// The segment of an ended process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stale {
    process: ProcessId,
    /// It ended by `exit`.
    exited: bool,
    /// `CLOCK_MONOTONIC` nanoseconds of its last sign of life.
    seen_ns: u64,
    /// What it takes of the file system.
    bytes: u64,
}

/// Removes what is too much from every directory of this user's. What cannot be removed stays: no
/// command fails for it.
pub fn collect() {
    // Without `/proc` the end of a process cannot be detected.
    if process::starttime(std::process::id()).is_none() {
        return;
    }
    for directory in segments::directories() {
        let is_ours = directory.symlink_metadata().is_ok_and(|data| is_own_folder(&data));
        if is_ours
            && let Ok(locked) = File::open(&directory)
            && locked.try_lock().is_ok()
        {
            collect_in(&directory);
        }
    }
}

fn collect_in(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let now_ns = Clock::of(std::process::id()).now_ns();
    let stale: Vec<Stale> = entries
        .flatten()
        .filter_map(|entry| {
            examine(entry.path(), ProcessId::from_file_name(entry.file_name().to_str()?)?, now_ns)
        })
        .collect();
    let room = rustix::fs::statvfs(directory).map_or(0, |room| room.f_blocks.saturating_mul(room.f_frsize));
    for one in stale.iter().filter(|one| is_surplus(one, &stale, allowance(room))) {
        let _ = fs::remove_file(directory.join(one.process.to_string()));
    }
    remove_stopped(directory);
}

/// Removes the states of stopped recordings whose segments are gone.
fn remove_stopped(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(stem) = name.to_str().and_then(stopped::is_of) else { continue };
        let segment = format!("{stem}{SUFFIX}");
        // The segment of a running process may be another user's.
        let runs = ProcessId::from_file_name(&segment)
            .is_some_and(|process| process::starttime(process.pid) == Some(process.starttime));
        if !runs && !directory.join(&segment).exists() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// What a process left; `None` when it has not ended, or the file is not a segment.
fn examine(path: PathBuf, process: ProcessId, now_ns: u64) -> Option<Stale> {
    // Never through a link, and without blocking, for any type of file.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let data = file.metadata().ok()?;
    if !data.is_file() || !file_writers::has_no_writer(&file) {
        return None;
    }
    let mut prefix = [0; Header::PREFIX_BYTES];
    file.read_exact_at(&mut prefix, 0).ok()?;
    let began_ns = Header::beginning(&prefix)?;
    let counter = |which: Counter| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, (COUNTERS_OFFSET + which as usize * 8) as u64).ok()?;
        Some(u64::from_le_bytes(word))
    };
    let exited = State::from_word(counter(Counter::State)?) == State::Exited;
    let seen_ns = counter(Counter::LastSeen)?.max(began_ns);
    // A time to come is one before the machine was started again.
    let seen_ns = if seen_ns > now_ns { 0 } else { seen_ns };
    let stale = Stale { process, exited, seen_ns, bytes: data.blocks().saturating_mul(512) };
    (process::starttime(process.pid) != Some(process.starttime)).then_some(stale)
}

/// Bytes that the segments of either kind may take of a file system of `all` bytes.
fn allowance(all: u64) -> u64 {
    // One without a size is as large as the memory.
    if all == 0 { MOST_BYTES } else { (all / SHARE).min(MOST_BYTES) }
}

/// Whether one of `all` is too much: so many of its kind were seen after it, or they leave no room
/// for it.
fn is_surplus(one: &Stale, all: &[Stale], allowance: u64) -> bool {
    let age = |stale: &Stale| (stale.seen_ns, stale.process.starttime, stale.process.pid);
    let later = all.iter().filter(|other| other.exited == one.exited && age(other) > age(one));
    let (count, bytes) =
        later.fold((0, one.bytes), |(count, bytes), other| (count + 1, other.bytes.saturating_add(bytes)));
    count >= MOST_KEPT || (count > 0 && bytes > allowance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stale(pid: u32, exited: bool, seen_ns: u64, bytes: u64) -> Stale {
        Stale { process: ProcessId { pid, starttime: 7 }, exited, seen_ns, bytes }
    }

    fn kept(all: &[Stale], allowance: u64) -> Vec<u32> {
        all.iter().filter(|one| !is_surplus(one, all, allowance)).map(|one| one.process.pid).collect()
    }

    #[test]
    fn the_last_of_each_kind_stay() {
        let killed = (0..40).map(|n| stale(n, false, u64::from(n), 1));
        let exited = (100..300).rev().map(|n| stale(n, true, 1000 + u64::from(n), 1));
        let all: Vec<_> = killed.chain(exited).collect();
        let expected: Vec<u32> = (8..40).chain((268..300).rev()).collect();
        assert_eq!(kept(&all, 1000), expected);
    }

    #[test]
    fn no_more_than_their_share_of_the_room_stays() {
        let all: Vec<_> = (0..20).map(|n| stale(n, n % 2 == 0, u64::from(n), 10)).collect();
        assert_eq!(kept(&all, 30), [14, 15, 16, 17, 18, 19]);
        assert_eq!(kept(&all, 39), [14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn the_very_last_stays_however_large() {
        let all = [stale(1, false, 10, 5), stale(2, false, 20, 5000), stale(3, true, 1, 5000)];
        assert_eq!(kept(&all, 100), [2, 3]);
        assert!(kept(&[], 0).is_empty());
    }

    #[test]
    fn those_seen_at_the_same_time_are_told_apart() {
        let all: Vec<_> = (0..100).map(|n| stale(n, true, 5, 1)).collect();
        assert_eq!(kept(&all, 1000), (68..100).collect::<Vec<_>>());
    }

    /// Segments that come or go while a collector lists the directory change nothing for the
    /// others: a part of the ended processes never loses what all together would have kept.
    #[test]
    fn a_part_keeps_what_the_whole_keeps() {
        let all: Vec<_> =
            (0..300).map(|n| stale(n, n % 3 == 0, u64::from(n * 7919 % 300), u64::from(n % 11))).collect();
        let whole = kept(&all, 90);
        let part: Vec<_> = all.iter().copied().filter(|one| one.process.pid % 5 < 2).collect();
        let in_part = kept(&part, 90);
        assert!(whole.iter().all(|pid| pid % 5 >= 2 || in_part.contains(pid)));
        assert!(in_part.len() < part.len());
    }

    #[test]
    fn the_allowance_is_a_share() {
        assert_eq!(allowance(64 << 20), 1 << 20);
        assert_eq!(allowance(1 << 40), MOST_BYTES);
        assert_eq!(allowance(0), MOST_BYTES);
    }
}
