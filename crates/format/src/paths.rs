//! Where segments live, and their names.
//!
//! A segment is a file `<pid>-<starttime>.seg` (mode 0600) in a directory that belongs to the
//! user (mode 0700). `starttime` is field 22 of `/proc/<pid>/stat`, so that a reused pid is never
//! taken for the process that had it before.

/// Environment variable that replaces the list below by one directory.
pub const DIRECTORY_VARIABLE: &str = "HEAPWISE_DIR";

/// Directories tried in order; `%u` is replaced by the user id. The first that can be created or
/// already belongs to the user wins; readers look in all of them. `/dev/shm` is memory; the others
/// are used when it is missing, full or read-only.
pub const DIRECTORIES: [&str; 3] = ["/dev/shm/heapwise-%u", "/run/user/%u/heapwise", "/tmp/heapwise-%u"];

/// Ending of a segment's file name.
pub const SUFFIX: &str = ".seg";

/// The process a segment's file name speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// Process id.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot.
    pub starttime: u64,
}

impl ProcessId {
    /// Parses `<pid>-<starttime>.seg`.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        let (pid, starttime) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        Some(Self { pid: pid.parse().ok()?, starttime: starttime.parse().ok()? })
    }
}

impl core::fmt::Display for ProcessId {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "{}-{}{SUFFIX}", self.pid, self.starttime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn file_name_round_trip() {
        let process = ProcessId { pid: 17, starttime: 998_877 };
        assert_eq!(ProcessId::from_file_name(&process.to_string()), Some(process));
        for wrong in ["17.seg", "a-1.seg", "17-1.segx", "17-.seg", ""] {
            assert_eq!(ProcessId::from_file_name(wrong), None, "{wrong}");
        }
    }
}
