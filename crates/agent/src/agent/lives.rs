//! When the last profile of each life was taken: a file, so that a restarted agent goes on in the
//! same order and takes no last profile twice.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use heapwise_capture::own_files::{create_temporary, read};
use heapwise_format::paths::ProcessId;

use crate::followed::Life;

/// The newest profile of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Taken {
    time_ns: u64,
    /// Whether it was taken after the end of the process.
    is_last: bool,
}

/// The lives that have profiles.
#[derive(Debug)]
pub(super) struct Lives {
    path: PathBuf,
    taken: BTreeMap<Life, Taken>,
    is_changed: bool,
}

impl Lives {
    /// Reads the file of an earlier run.
    pub(super) fn load(directory: &Path) -> Self {
        let path = directory.join("lives");
        let text = read(&path).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        Self { path, taken: text.lines().filter_map(parse).collect(), is_changed: false }
    }

    /// Whether the last profile was taken.
    pub(super) fn has_ended(&self, life: Life) -> bool {
        self.taken.get(&life).is_some_and(|taken| taken.is_last)
    }

    /// The time of a last profile. The probe's last sign of life may be older than profiles that
    /// were taken meanwhile; the last profile is newer than they are. Until it is saved, a
    /// restarted agent computes the same time, and so the same id.
    pub(super) fn last_time_ns(&self, life: Life, sign_of_life_ns: u64) -> u64 {
        self.taken.get(&life).map_or(0, |taken| taken.time_ns + 1).max(sign_of_life_ns)
    }

    /// Notes a profile.
    pub(super) fn note(&mut self, life: Life, time_ns: u64, is_last: bool) {
        self.taken.insert(life, Taken { time_ns, is_last });
        self.is_changed = true;
    }

    /// Removes lives whose segments are gone.
    pub(super) fn keep(&mut self, is_present: impl Fn(ProcessId) -> bool) {
        let before = self.taken.len();
        self.taken.retain(|life, _| is_present(life.process));
        self.is_changed |= self.taken.len() != before;
    }

    /// Writes the file when it has changed.
    pub(super) fn save(&mut self) {
        if !self.is_changed {
            return;
        }
        let line = |(life, taken): (&Life, &Taken)| {
            let Life { process: ProcessId { pid, starttime }, created_ns } = life;
            format!("{pid} {starttime} {created_ns} {} {}\n", taken.time_ns, u8::from(taken.is_last))
        };
        let text: String = self.taken.iter().map(line).collect();
        let temporary = self.path.with_extension("tmp");
        let written = create_temporary(&temporary).and_then(|mut file| file.write_all(text.as_bytes()));
        // Without it, a restarted agent takes last profiles again, with the same ids.
        self.is_changed = written.and_then(|()| fs::rename(&temporary, &self.path)).is_err();
    }
}

/// A line of the file.
fn parse(line: &str) -> Option<(Life, Taken)> {
    let mut numbers = line.split(' ').map(|number| number.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    let process = ProcessId { pid: u32::try_from(next()?).ok()?, starttime: next()? };
    let life = Life { process, created_ns: next()? };
    Some((life, Taken { time_ns: next()?, is_last: next()? == 1 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(pid: u32) -> Life {
        Life { process: ProcessId { pid, starttime: 5 }, created_ns: 7 }
    }

    #[test]
    fn lives_survive_a_restart_and_end_with_their_segments() {
        let folder = std::env::temp_dir().join(format!("heapwise-lives-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut lives = Lives::load(&folder);
        lives.note(life(1), 100, true);
        lives.note(life(2), 100, true);
        lives.note(life(3), 100, false);
        lives.save();
        let mut again = Lives::load(&folder);
        assert_eq!([1, 2, 3, 4].map(|pid| again.has_ended(life(pid))), [true, true, false, false]);
        assert_eq!(again.last_time_ns(life(3), 50), 101);
        again.keep(|process| process.pid == 2);
        again.save();
        let last = Lives::load(&folder);
        assert!(!last.has_ended(life(1)) && last.has_ended(life(2)));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_last_profile_is_newer_than_the_ones_before_it() {
        let mut lives = Lives::load(Path::new("/nowhere"));
        assert_eq!(lives.last_time_ns(life(1), 50), 50);
        lives.note(life(1), 88, false);
        assert_eq!(lives.last_time_ns(life(1), 50), 89);
        assert_eq!(lives.last_time_ns(life(1), 90), 90);
    }
}
