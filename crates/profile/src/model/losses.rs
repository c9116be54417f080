//! Losses while recording, one counter per reason.

/// One counter per reason something was missed. What is counted but cannot be attributed is not
/// lost: see [`crate::unattributed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Events not recorded because a buffer was full.
    pub dropped_events: u64,
    /// Stacks cut at the depth limit.
    pub truncated_stacks: u64,
    /// Sites whose stacks end in code without unwind information, or pass through such code.
    pub broken_stacks: u64,
    /// Events not recorded because the probe was already busy on that thread (signal handlers).
    pub reentrant_events: u64,
    /// Blocks counted as freed when they were allocated, because the index of live blocks was full.
    pub untracked_blocks: u64,
    /// Bytes of the untracked blocks: live bytes may be higher by up to this.
    pub untracked_bytes: u64,
    /// Threads without a record; their blocks are counted without a thread.
    pub unrecorded_threads: u64,
    /// Binaries without a record; addresses in them stay numbers.
    pub unrecorded_modules: u64,
    /// Frees of blocks that are not in the index of live blocks.
    pub unknown_frees: u64,
    /// Marks of the program that had no room.
    pub lost_marks: u64,
}

impl Losses {
    /// Names of the counters in the order of [`Losses::numbers`], as JSON has them.
    pub const NAMES: [&str; 10] = [
        "dropped_events",
        "truncated_stacks",
        "broken_stacks",
        "reentrant_events",
        "untracked_blocks",
        "untracked_bytes",
        "unrecorded_threads",
        "unrecorded_modules",
        "unknown_frees",
        "lost_marks",
    ];

    /// All counters; files store them in this order. New counters are appended.
    #[must_use]
    pub fn numbers(&self) -> [u64; Self::NAMES.len()] {
        [
            self.dropped_events,
            self.truncated_stacks,
            self.broken_stacks,
            self.reentrant_events,
            self.untracked_blocks,
            self.untracked_bytes,
            self.unrecorded_threads,
            self.unrecorded_modules,
            self.unknown_frees,
            self.lost_marks,
        ]
    }

    /// The inverse of [`Losses::numbers`]; counters that an older file does not have are 0.
    #[must_use]
    pub(crate) fn from_numbers(numbers: &[u64]) -> Self {
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        Self {
            dropped_events: at(0),
            truncated_stacks: at(1),
            broken_stacks: at(2),
            reentrant_events: at(3),
            untracked_blocks: at(4),
            untracked_bytes: at(5),
            unrecorded_threads: at(6),
            unrecorded_modules: at(7),
            unknown_frees: at(8),
            lost_marks: at(9),
        }
    }

    /// The sum of two counts.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sums = self.numbers();
        for (sum, one) in sums.iter_mut().zip(other.numbers()) {
            *sum = sum.saturating_add(one);
        }
        Self::from_numbers(&sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_short_lists_are_filled_with_zeros() {
        let losses = Losses::from_numbers(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(losses.numbers(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(Losses::from_numbers(&[1, 2, 3, 4]).numbers(), [1, 2, 3, 4, 0, 0, 0, 0, 0, 0]);
        assert_eq!(losses.plus(&Losses::from_numbers(&[u64::MAX])).dropped_events, u64::MAX);
    }
}
