//! Profiles taken from a process, on disk: named by time, unique, bounded in number.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heapwise_capture::own_files;
use heapwise_profile::calendar::Utc;
use serde_json::{Value, json};

/// Processes with stored profiles; the least recently changed are removed first.
const MOST_PROCESSES: usize = 64;
/// File with the name of the program, for when the process and its segment are gone.
const PROGRAM: &str = "program";

/// A profile that stays the same, under a name that is unique within its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub name: String,
    pub time_unix_ms: Option<u64>,
    pub bytes: u64,
    /// Changes when the file behind the name is replaced.
    pub version: u64,
}

impl Stored {
    /// As the API shows it.
    pub(crate) fn json(&self) -> Value {
        json!({ "name": self.name, "time_unix_ms": self.time_unix_ms, "bytes": self.bytes })
    }
}

/// The stored profiles of one process.
#[derive(Debug, Clone)]
pub(crate) struct ProfileStore {
    directory: PathBuf,
    most: Kept,
}

/// How many profiles of each process are kept; changed while the server runs.
#[derive(Debug, Clone)]
pub(crate) struct Kept(Arc<AtomicUsize>);

impl Kept {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(most)))
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, most: usize) {
        self.0.store(most, Ordering::Relaxed);
    }
}

impl ProfileStore {
    /// The store in `root/<process>`, of at most `most` profiles.
    pub(crate) fn new(root: &Path, process: &str, most: Kept) -> Self {
        Self { directory: root.join(process), most }
    }

    /// Stored profiles, newest first. Names are what the directory holds, checked again by `read`.
    pub(crate) fn list(&self) -> Vec<Stored> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let mut all: Vec<Stored> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let data = fs::symlink_metadata(entry.path()).ok()?;
                let time = parse_name(&name)?;
                // A reserved name has no content yet.
                (data.is_file() && data.len() > 0).then_some(Stored {
                    time_unix_ms: Some(time.as_millis() as u64),
                    bytes: data.len(),
                    version: 0,
                    name,
                })
            })
            .collect();
        all.sort_by_cached_key(|stored| std::cmp::Reverse(order(&stored.name)));
        all
    }

    /// The bytes of a stored profile.
    pub(crate) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        if parse_name(name).is_none() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "not the name of a stored profile"));
        }
        self.content(name)
    }

    /// The name of the program, from the last stored profile.
    pub(crate) fn program(&self) -> String {
        self.content(PROGRAM).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }

    fn content(&self, name: &str) -> io::Result<Vec<u8>> {
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let mut file =
            OpenOptions::new().read(true).custom_flags(nofollow).open(self.directory.join(name))?;
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut file, &mut bytes)?;
        Ok(bytes)
    }

    /// Stores a profile of `program` under the time it was taken, and prunes.
    pub(crate) fn store(&self, taken: SystemTime, program: &str, bytes: &[u8]) -> io::Result<Stored> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let data = fs::symlink_metadata(&self.directory)?;
        if !own_files::is_own_folder(&data) {
            let problem = format!("{}: others may write there", self.directory.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
        let name = self.reserve(taken)?;
        self.replace(PROGRAM, program.as_bytes()).and_then(|()| self.replace(&name, bytes)).inspect_err(
            |_| {
                let _ = fs::remove_file(self.directory.join(&name));
            },
        )?;
        self.prune();
        let millis = parse_name(&name).map(|time| time.as_millis() as u64);
        Ok(Stored { name, time_unix_ms: millis, bytes: bytes.len() as u64, version: 0 })
    }

    /// Readers see the old content or the new; only the user can read it.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.directory.join(format!(".{name}.{}.tmp", std::process::id()));
        own_files::create_temporary(&temporary)
            .and_then(|mut file| io::Write::write_all(&mut file, bytes))
            .and_then(|()| fs::rename(&temporary, self.directory.join(name)))
            .inspect_err(|_| {
                let _ = fs::remove_file(&temporary);
            })
    }

    /// Reserves a unique name, also among two servers, or two clicks within a second. The newest
    /// profile is never pruned, so numbers that continue from it are unique.
    fn reserve(&self, taken: SystemTime) -> io::Result<String> {
        let stamp = stamp(taken.duration_since(UNIX_EPOCH).unwrap_or_default());
        let orders = self.list().into_iter().map(|stored| order(&stored.name));
        let first = orders.filter(|order| order.0 == stamp).map(|order| order.1 + 1).max().unwrap_or(0);
        for number in first..first + 1000 {
            let name = if number == 0 { format!("{stamp}.heap") } else { format!("{stamp}.{number}.heap") };
            let path = self.directory.join(&name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Ok(_) => return Ok(name),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many profiles within one second"))
    }

    /// Removes the oldest beyond the limit, here and among all processes.
    fn prune(&self) {
        for old in self.list().iter().skip(self.most.get().max(1)) {
            let _ = fs::remove_file(self.directory.join(&old.name));
        }
        if let Some(root) = self.directory.parent() {
            prune_processes(root);
        }
    }
}

/// Processes under `root` that have a history.
pub(crate) fn processes(root: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| is_process(name)).take(MOST_PROCESSES).collect()
}

/// `<pid>-<start time>`: the only names that are looked for on disk.
fn is_process(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.len() <= 20 && is_number(text);
    name.split_once('-').is_some_and(|(pid, start)| number(pid) && number(start))
}

fn prune_processes(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    let mut all: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let data = fs::symlink_metadata(&path).ok()?;
            data.is_dir().then_some((data.modified().ok()?, path))
        })
        .collect();
    all.sort();
    let excess = all.len().saturating_sub(MOST_PROCESSES);
    for (_, path) in &all[..excess] {
        let _ = fs::remove_dir_all(path);
    }
}

/// `YYYYmmdd.HHMMSS` in UTC: brpc's names, in the order of time.
fn stamp(since_epoch: Duration) -> String {
    let Utc { year, month, day, hour, minute, second } = Utc::from_unix(since_epoch.as_secs());
    format!("{year:04}{month:02}{day:02}.{hour:02}{minute:02}{second:02}")
}

/// The time in a name; `None` for a name that `reserve` does not make.
fn parse_name(name: &str) -> Option<Duration> {
    let parts: Vec<&str> = name.strip_suffix(".heap")?.split('.').collect();
    let (date, time) = match parts.as_slice() {
        [date, time] => (date, time),
        [date, time, number] if !number.is_empty() && number.len() <= 4 && is_number(number) => (date, time),
        _ => return None,
    };
    if date.len() != 8 || time.len() != 6 || !is_number(date) || !is_number(time) {
        return None;
    }
    let field = |text: &str| text.parse::<u64>().ok();
    let (year, month, day) = (field(&date[..4])?, field(&date[4..6])?, field(&date[6..])?);
    let (hour, minute, second) = (field(&time[..2])?, field(&time[2..4])?, field(&time[4..])?);
    Some(Duration::from_secs(Utc { year, month, day, hour, minute, second }.to_unix()))
}

/// Order of names: by stamp, then by number.
fn order(name: &str) -> (String, u32) {
    let stem = name.trim_end_matches(".heap");
    let number = stem.get(16..).and_then(|number| number.parse().ok()).unwrap_or(0);
    (stem.chars().take(15).collect(), number)
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("heapwise-history-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn stamps_are_dates() {
        // `date -u -d @1794733980 +%Y%m%d.%H%M%S`
        assert_eq!(stamp(Duration::from_secs(1_794_733_980)), "20261115.091300");
        assert_eq!(stamp(Duration::from_secs(951_782_400)), "20000229.000000");
        for seconds in [0, 951_782_400, 1_794_733_980, 4_102_444_799] {
            let name = format!("{}.heap", stamp(Duration::from_secs(seconds)));
            assert_eq!(parse_name(&name), Some(Duration::from_secs(seconds)), "{name}");
        }
    }

    #[test]
    fn names_are_unique_within_a_second_and_the_oldest_go() {
        let root = scratch("prune");
        let history = ProfileStore::new(&root, "1-2", Kept::new(3));
        let at = UNIX_EPOCH + Duration::from_secs(1_794_733_980);
        let names: Vec<String> = (0..5).map(|_| history.store(at, "p", b"x").unwrap().name).collect();
        assert_eq!(names[4], "20261115.091300.4.heap");
        let kept: Vec<String> = history.list().into_iter().map(|stored| stored.name).collect();
        assert_eq!(kept, [names[4].clone(), names[3].clone(), names[2].clone()]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn kept_for_the_user_alone() {
        let root = scratch("modes");
        let history = ProfileStore::new(&root, "1-2", Kept::new(3));
        history.store(UNIX_EPOCH, "p", b"x").unwrap();
        let mode = |name: &str| fs::symlink_metadata(root.join("1-2").join(name)).unwrap().mode() & 0o7777;
        assert_eq!((mode(""), mode(PROGRAM), mode("19700101.000000.heap")), (0o700, 0o600, 0o600));
        // Another user created the directory first, with a link to a file of this user.
        fs::write(root.join("precious"), "ours").unwrap();
        for (process, mode) in [("3-4", 0o700), ("5-6", 0o777)] {
            let planted = root.join(process);
            fs::create_dir(&planted).unwrap();
            fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            std::os::unix::fs::symlink(root.join("precious"), planted.join(PROGRAM)).unwrap();
            let history = ProfileStore::new(&root, process, Kept::new(3));
            assert_eq!(history.program(), "");
            assert_eq!(history.store(UNIX_EPOCH, "p", b"x").is_ok(), mode == 0o700);
        }
        assert_eq!(fs::read(root.join("precious")).unwrap(), b"ours");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn only_names_it_made_are_read() {
        let root = scratch("names");
        let history = ProfileStore::new(&root, "1-2", Kept::new(3));
        history.store(UNIX_EPOCH, "p", b"x").unwrap();
        fs::write(root.join("secret"), "no").unwrap();
        std::os::unix::fs::symlink(root.join("secret"), root.join("1-2/19700101.000001.heap")).unwrap();
        assert_eq!(history.read("19700101.000000.heap").unwrap(), b"x");
        for name in
            ["../secret", "secret", "", ".", "19700101.000001.heap", "19700101.000000.heap/../../secret"]
        {
            assert!(history.read(name).is_err(), "{name}");
        }
        assert_eq!(history.list().len(), 1);
        fs::create_dir(root.join("not-a-process")).unwrap();
        assert_eq!(processes(&root), ["1-2"]);
        fs::remove_dir_all(root).unwrap();
    }
}
