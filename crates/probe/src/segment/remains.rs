//! What ended processes left behind, and how much of it may stay.
//!
//! A segment outlives its process, so that the last state of a killed program can be read. Somebody who starts programs
//! with the probe all day must not lose the machine's memory to that: each looks around before it adds to the directory.
//!
//! *Who has ended*: whose segment nobody has mapped or open for writing ([`File::is_at_rest`]), and who is not found in
//! `/proc` either. The first is known across pid namespaces, where a number says nothing, and keeps what a recorder or a
//! report is at; on overlayfs, where the system does not count mappings, the second still is. Whoever doubts keeps.
//!
//! *What stays*: of those that exited and of those that did not, each, the last [`MOST_KEPT`] and no more than a
//! [`SHARE`]th of the file system, but always the last one. Two accounts, so that a crowd of programs that end as they
//! should does not push out the one that was killed.
//!
//! *The cost* of a look is some ten system calls a file (microseconds), so only one start in [`STARTS`] has one, drawn by
//! lot, and everyone where the file system is half full. It has a bound: [`MOST_SEEN`] files of a random choice, so that
//! no crowd of running processes stands before the dead. Whatever is chosen, nothing goes that would have stayed if all had been
//! seen, and any larger heap shrinks from look to look.
//!
//! A reader that wants all of them, `heapwise run --children`, shares the directory's lock for that time.
#![allow(unsafe_code)]

use heapwise_format::place::{Incarnation, SUFFIX};
use heapwise_format::segment::{COUNTERS_OFFSET, Counter, Header, State};

use crate::fixed_text::FixedText;
use crate::sys::{self, File, Mapping};
use crate::{clock, process};

/// Segments of either kind that stay at most.
const MOST_KEPT: usize = 32;
/// Which part of the file system they may take.
const SHARE: u64 = 64;
/// And no more than this, however large that is.
const MOST_BYTES: u64 = 512 << 20;
/// Files looked at in one go: those that stay, and some that run.
const MOST_SEEN: usize = 8 * MOST_KEPT;
/// Names are read in so many pieces at most, of some two hundred each.
const MOST_PIECES: usize = 64;
/// One program in so many looks.
const STARTS: u64 = 16;
/// One forked child: they cost less to begin with, and come in greater numbers.
const FORKS: u64 = 64;
/// Everyone looks when less than this part of the file system is free: in memory, that is the machine's trouble soon.
const RESERVE: u64 = 2;

/// What became a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A program that starts.
    Program,
    /// A forked child.
    Fork,
}

/// The segment of an ended process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Remains {
    process: Incarnation,
    /// It ended by `exit`.
    exited: bool,
    /// `CLOCK_MONOTONIC` nanoseconds of its last sign of life.
    seen_ns: u64,
    /// What it takes of the file system.
    bytes: u64,
}

/// Too much for the stack of a program that may be anywhere.
#[repr(C)]
struct Workspace {
    piece: [u8; 8 << 10],
    processes: [Incarnation; MOST_SEEN],
    remains: [Remains; MOST_SEEN],
}

/// Removes what is too much from a directory that is known to be this user's alone, when it is this process's turn.
pub(super) fn tidy(directory: &File, origin: Origin) {
    let room = directory.room();
    let turns = if origin == Origin::Fork { FORKS } else { STARTS };
    let is_due = room.free_bytes < room.bytes / RESERVE || sys::random().is_multiple_of(turns);
    if is_due && directory.lock() {
        clear(directory, allowance(room.bytes));
    }
}

fn clear(directory: &File, allowance: u64) {
    let Some(memory) = Mapping::new(size_of::<Workspace>()) else { return };
    // SAFETY: large enough, page-aligned, nobody else's while `memory` lives, and zeroes are a valid `Workspace`.
    let Workspace { piece, processes, remains } = unsafe { &mut *memory.start().cast::<Workspace>() };
    let processes = choose(directory, piece, processes);
    let mut found = 0;
    for process in processes {
        if let (Some(one), Some(slot)) = (look(directory, *process), remains.get_mut(found)) {
            *slot = one;
            found += 1;
        }
    }
    let remains = remains.get(..found).unwrap_or(&[]);
    for one in remains.iter().filter(|one| is_surplus(one, remains, allowance)) {
        name_of(one.process).as_c_str().into_iter().for_each(|name| directory.unlink_inside(name));
    }
}

/// The processes that segments in `directory` are named after: all, or as many as there is room for, each with the same
/// chance.
fn choose<'a>(directory: &File, piece: &mut [u8], into: &'a mut [Incarnation]) -> &'a [Incarnation] {
    let mut random = sys::random();
    let mut count: usize = 0;
    for _ in 0..MOST_PIECES {
        let entries = directory.entries(piece);
        if entries.is_empty() {
            break;
        }
        for process in Names(entries).filter_map(|name| Incarnation::from_file_name(name?)) {
            let slot = if count < into.len() {
                count
            } else {
                // Knuth's generator: its upper half is random enough to be fair.
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 32).wrapping_mul(count as u64 + 1) as usize >> 32
            };
            if let Some(slot) = into.get_mut(slot) {
                *slot = process;
            }
            count += 1;
        }
    }
    into.get(..count.min(into.len())).unwrap_or(&[])
}

/// The names in what `getdents64` writes; `None` for one that is not text.
struct Names<'a>(&'a [u8]);

impl<'a> Iterator for Names<'a> {
    type Item = Option<&'a str>;

    fn next(&mut self) -> Option<Self::Item> {
        // An inode, an offset, the length of all of it, a type, the name and a NUL.
        let len = u16::from_ne_bytes(self.0.get(16..18)?.try_into().ok()?);
        let (entry, rest) = self.0.split_at_checked(usize::from(len))?;
        self.0 = rest;
        let name = entry.get(19..)?.split(|byte| *byte == 0).next()?;
        Some(core::str::from_utf8(name).ok())
    }
}

fn name_of(process: Incarnation) -> FixedText<48> {
    let mut name = FixedText::new();
    name.push_decimal(u64::from(process.pid))
        .push(b"-")
        .push_decimal(process.starttime)
        .push(SUFFIX.as_bytes());
    name
}

/// What a process left; `None` when it has not ended, or it is no segment.
fn look(directory: &File, process: Incarnation) -> Option<Remains> {
    let file = directory.open_inside(name_of(process).as_c_str()?).ok()?;
    let status = file.status().ok()?;
    if status.mode & libc::S_IFMT != libc::S_IFREG || !file.is_at_rest() {
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
    // One descriptor less for the next question.
    drop(file);
    // A time to come is one before the machine was started anew.
    let seen_ns = if seen_ns > clock::monotonic_ns() { 0 } else { seen_ns };
    let remains = Remains { process, exited, seen_ns, bytes: status.real_bytes };
    (!process::runs(process)).then_some(remains)
}

/// Bytes that the segments of either kind may take of a file system of `all` bytes.
fn allowance(all: u64) -> u64 {
    // One without a size is as large as the memory.
    if all == 0 { MOST_BYTES } else { (all / SHARE).min(MOST_BYTES) }
}

/// Whether one of `all` is too much: so many of its kind were seen after it, or they leave no room for it.
fn is_surplus(one: &Remains, all: &[Remains], allowance: u64) -> bool {
    let age = |remains: &Remains| (remains.seen_ns, remains.process.starttime, remains.process.pid);
    let later = all.iter().filter(|other| other.exited == one.exited && age(other) > age(one));
    let (count, bytes) =
        later.fold((0, one.bytes), |(count, bytes), other| (count + 1, other.bytes.saturating_add(bytes)));
    count >= MOST_KEPT || (count > 0 && bytes > allowance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remains(pid: u32, exited: bool, seen_ns: u64, bytes: u64) -> Remains {
        Remains { process: Incarnation { pid, starttime: 7 }, exited, seen_ns, bytes }
    }

    fn kept(all: &[Remains], allowance: u64) -> Vec<u32> {
        all.iter().filter(|one| !is_surplus(one, all, allowance)).map(|one| one.process.pid).collect()
    }

    #[test]
    fn the_last_of_each_kind_stay() {
        let killed = (0..40).map(|n| remains(n, false, u64::from(n), 1));
        let exited = (100..300).rev().map(|n| remains(n, true, 1000 + u64::from(n), 1));
        let all: Vec<_> = killed.chain(exited).collect();
        let expected: Vec<u32> = (8..40).chain((268..300).rev()).collect();
        assert_eq!(kept(&all, 1000), expected);
    }

    #[test]
    fn no_more_than_their_share_of_the_room_stays() {
        let all: Vec<_> = (0..20).map(|n| remains(n, n % 2 == 0, u64::from(n), 10)).collect();
        assert_eq!(kept(&all, 30), [14, 15, 16, 17, 18, 19]);
        assert_eq!(kept(&all, 39), [14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn the_very_last_stays_however_large() {
        let all = [remains(1, false, 10, 5), remains(2, false, 20, 5000), remains(3, true, 1, 5000)];
        assert_eq!(kept(&all, 100), [2, 3]);
        assert_eq!(kept(&[], 0), []);
    }

    #[test]
    fn those_seen_at_the_same_time_are_told_apart() {
        let all: Vec<_> = (0..100).map(|n| remains(n, true, 5, 1)).collect();
        assert_eq!(kept(&all, 1000), (68..100).collect::<Vec<_>>());
    }

    /// The promise of the file's head: a part of the dead never loses what all together would have kept.
    #[test]
    fn a_part_keeps_what_the_whole_keeps() {
        let all: Vec<_> =
            (0..300).map(|n| remains(n, n % 3 == 0, u64::from(n * 7919 % 300), u64::from(n % 11))).collect();
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

    fn entry(name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        bytes.extend(((19 + name.len() + 1).next_multiple_of(8) as u16).to_ne_bytes());
        bytes.push(libc::DT_REG);
        bytes.extend(name);
        bytes.resize((19 + name.len() + 1).next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn names_are_read_up_to_where_they_make_no_sense() {
        let mut bytes = [entry(b"."), entry(b"17-4.seg"), entry(b"\xff"), entry(b"a name")].concat();
        let names = [Some("."), Some("17-4.seg"), None, Some("a name")];
        assert!(Names(&bytes).eq(names));
        bytes.pop();
        assert!(Names(&bytes).eq(names[..3].iter().copied()));
        assert_eq!(Names(&[0; 64]).next(), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a system call of the kernel's own")]
    fn everyone_of_a_crowd_has_a_chance() {
        const CROWD: u32 = MOST_SEEN as u32 + 50;
        let folder = std::env::temp_dir().join(format!("heapwise-crowd-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        for pid in 0..CROWD {
            std::fs::write(folder.join(format!("{pid}-7.seg")), "").expect("a file");
        }
        let path = std::ffi::CString::new(folder.to_str().expect("UTF-8")).expect("a path");
        let mut chosen = std::collections::BTreeSet::new();
        for _ in 0..40 {
            let directory = File::open(&path, libc::O_RDONLY | libc::O_DIRECTORY).expect("there");
            let mut into = [Incarnation { pid: 0, starttime: 0 }; MOST_SEEN];
            let pids = choose(&directory, &mut [0; 500], &mut into).iter().map(|process| process.pid);
            let pids: std::collections::BTreeSet<u32> = pids.collect();
            assert_eq!(pids.len(), MOST_SEEN, "nobody twice");
            chosen.extend(pids);
        }
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(chosen.len(), CROWD as usize);
    }

    /// The kernel's own word: a name whose file is mapped is nobody's to remove, whatever its number says.
    #[test]
    #[cfg_attr(miri, ignore = "a system call of the kernel's own")]
    fn what_is_mapped_is_not_at_rest() {
        let path = std::ffi::CString::new(format!("/dev/shm/heapwise-rest-{}", std::process::id())).unwrap();
        let file = File::open(&path, libc::O_RDWR | libc::O_CREAT).expect("a file");
        file.truncate(4096).expect("a page");
        let is_at_rest = || File::open(&path, libc::O_RDONLY).expect("a file").is_at_rest();
        let memory = file.map_shared(4096).expect("mapped");
        assert!(!is_at_rest());
        drop(file);
        assert!(!is_at_rest());
        // SAFETY: nothing refers to it.
        unsafe { sys::unmap(memory, 4096) };
        // A program that another test starts has our descriptors for a moment.
        while !is_at_rest() {
            std::thread::yield_now();
        }
        sys::unlink(&path);
    }
}
