//! What agents took, against what the server stored.

use std::collections::BTreeMap;
use std::fs;

use super::host::Host;
use super::reader::Reader;
use heapwise_testkit::failure::Failure;

/// Host, process and time of a profile.
type Key = (String, u64, u64);

/// Counts of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    /// Profiles of agents.
    pub(crate) taken: usize,
    /// Bytes of their files.
    pub(crate) bytes: u64,
    /// Profiles of agents that the server does not have.
    pub(crate) missing: usize,
    /// Profiles that the server has more than once.
    pub(crate) repeated: usize,
    /// Profiles of the server that no agent has written.
    pub(crate) unknown: usize,
}

impl Account {
    /// Whether every profile is stored once.
    pub(crate) fn is_even(&self) -> bool {
        (self.missing, self.repeated, self.unknown) == (0, 0, 0)
    }

    /// Compares the files of all hosts with the rows of `profiles`, read in one process or on the
    /// cluster of a scheduler.
    pub(crate) fn of(
        hosts: &[Host<'_>],
        reader: &Reader<'_>,
        scheduler: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut taken: BTreeMap<Key, u64> = BTreeMap::new();
        for host in hosts {
            let directory = host.files();
            for entry in fs::read_dir(&directory).map_err(|why| Failure::at(&directory, why))?.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let key = key(&host.name(), &name);
                let key = key.ok_or_else(|| Failure::new(format!("{name}: not the file of a profile")))?;
                taken.insert(key, entry.metadata().map_or(0, |meta| meta.len()));
            }
        }
        let mut stored: BTreeMap<Key, usize> = BTreeMap::new();
        for row in reader.rows(&["query", "SELECT host, pid, time_ns FROM profiles"], scheduler)? {
            let number = |name: &str| row[name].as_u64().unwrap_or(0);
            let host = row["host"].as_str().unwrap_or_default().to_owned();
            *stored.entry((host, number("pid"), number("time_ns"))).or_default() += 1;
        }
        Ok(Self {
            taken: taken.len(),
            bytes: taken.values().sum(),
            missing: taken.keys().filter(|key| !stored.contains_key(key)).count(),
            repeated: stored.values().filter(|count| **count > 1).count(),
            unknown: stored.keys().filter(|key| !taken.contains_key(key)).count(),
        })
    }
}

/// The key of a file `PROGRAM.PID.TIME.hwp`.
fn key(host: &str, name: &str) -> Option<Key> {
    let mut parts = name.strip_suffix(".hwp")?.rsplit('.');
    let time = parts.next()?.parse().ok()?;
    let pid = parts.next()?.parse().ok()?;
    Some((host.to_owned(), pid, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_may_have_dots() {
        assert_eq!(key("h", "lua5.4.77.123.hwp"), Some(("h".into(), 77, 123)));
        assert_eq!(key("h", "other"), None);
    }
}
