//! Lives whose last profile was taken: a file, so that a restarted agent does not take them again.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use heapwise_capture::own_files::{create_temporary, read};
use heapwise_format::paths::ProcessId;

use crate::followed::Life;

/// The lives that are done.
#[derive(Debug)]
pub(super) struct Ended {
    path: PathBuf,
    lives: BTreeSet<(u32, u64, u64)>,
    is_changed: bool,
}

impl Ended {
    /// Reads the file of an earlier run.
    pub(super) fn load(directory: &Path) -> Self {
        let path = directory.join("ended");
        let text = read(&path).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let life = |line: &str| {
            let mut numbers = line.split(' ').map(|number| number.parse::<u64>().ok());
            let mut next = || numbers.next().flatten();
            Some((u32::try_from(next()?).ok()?, next()?, next()?))
        };
        Self { path, lives: text.lines().filter_map(life).collect(), is_changed: false }
    }

    pub(super) fn has(&self, life: Life) -> bool {
        self.lives.contains(&key(life))
    }

    pub(super) fn add(&mut self, life: Life) {
        self.is_changed |= self.lives.insert(key(life));
    }

    /// Removes lives whose segments are gone.
    pub(super) fn keep(&mut self, present: impl Fn(ProcessId) -> bool) {
        let before = self.lives.len();
        self.lives.retain(|(pid, starttime, _)| present(ProcessId { pid: *pid, starttime: *starttime }));
        self.is_changed |= self.lives.len() != before;
    }

    /// Writes the file when it has changed.
    pub(super) fn save(&mut self) {
        if !self.is_changed {
            return;
        }
        let line = |(pid, starttime, created): &(u32, u64, u64)| format!("{pid} {starttime} {created}\n");
        let text: String = self.lives.iter().map(line).collect();
        let temporary = self.path.with_extension("tmp");
        let written = create_temporary(&temporary).and_then(|mut file| file.write_all(text.as_bytes()));
        // Without it, a restarted agent takes these profiles again, with the same ids.
        self.is_changed = written.and_then(|()| fs::rename(&temporary, &self.path)).is_err();
    }
}

fn key(life: Life) -> (u32, u64, u64) {
    (life.process.pid, life.process.starttime, life.created_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_survive_a_restart_and_end_with_their_segments() {
        let folder = std::env::temp_dir().join(format!("heapwise-ended-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let life = |pid| Life { process: ProcessId { pid, starttime: 5 }, created_ns: 7 };
        let mut ended = Ended::load(&folder);
        ended.add(life(1));
        ended.add(life(2));
        ended.save();
        let mut again = Ended::load(&folder);
        assert!(again.has(life(1)) && again.has(life(2)) && !again.has(life(3)));
        again.keep(|process| process.pid == 2);
        again.save();
        let last = Ended::load(&folder);
        assert!(!last.has(life(1)) && last.has(life(2)));
        fs::remove_dir_all(&folder).unwrap();
    }
}
