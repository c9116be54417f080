//! Why the probe had no room: a set of reasons.

/// One reason why the probe had no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// The file system of the segment is full.
    FileSystem,
    /// The program forbade system calls (seccomp), so the segment could not grow.
    Sandbox,
    /// The program limited its address space (`RLIMIT_AS`).
    AddressSpace,
    /// The program locked its memory (`mlockall`).
    LockedMemory,
    /// A table reached its largest size.
    Table,
    /// The recorder did not read the log fast enough.
    SlowRecorder,
}

impl Shortage {
    /// All shortages, in the order of their bits.
    pub const ALL: [Shortage; 6] = [
        Shortage::FileSystem,
        Shortage::Sandbox,
        Shortage::AddressSpace,
        Shortage::LockedMemory,
        Shortage::Table,
        Shortage::SlowRecorder,
    ];

    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Shortage::FileSystem => "file_system",
            Shortage::Sandbox => "sandbox",
            Shortage::AddressSpace => "address_space",
            Shortage::LockedMemory => "locked_memory",
            Shortage::Table => "table",
            Shortage::SlowRecorder => "slow_recorder",
        }
    }
}

/// A set of shortages: one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shortages(pub u64);

impl Shortages {
    /// The shortages of the set.
    pub fn iter(self) -> impl Iterator<Item = Shortage> {
        Shortage::ALL.into_iter().filter(move |shortage| self.contains(*shortage))
    }

    /// Whether the set contains a shortage.
    #[must_use]
    pub fn contains(self, shortage: Shortage) -> bool {
        self.0 & (1 << shortage as u64) != 0
    }

    /// The set and one more shortage.
    #[must_use]
    pub fn with(self, shortage: Shortage) -> Self {
        Self(self.0 | 1 << shortage as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_lists_its_shortages() {
        let set = Shortages::default().with(Shortage::Table).with(Shortage::FileSystem);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Shortage::FileSystem, Shortage::Table]);
        assert!(!set.contains(Shortage::Sandbox));
    }
}
