//! Losses from before a recording began, which are not its own.

use heapwise_format::segment::{Counter, SegmentSource};
use heapwise_profile::snapshot::Snapshot;

/// Counters of what a recording may lose.
const COUNTERS: [Counter; 5] = [
    Counter::LostEvents,
    Counter::NoSpaceEvents,
    Counter::FrozenEvents,
    Counter::WaitedEvents,
    Counter::LostMarks,
];

/// Values of these counters at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses([u64; COUNTERS.len()]);

impl Losses {
    /// Those of a snapshot.
    pub(super) fn read<S: SegmentSource>(snapshot: &Snapshot<'_, S>) -> Self {
        Self(COUNTERS.map(|counter| snapshot.counter(counter)))
    }

    /// The value of a counter; 0 for one that counts no losses of a recording.
    pub(super) fn of(&self, counter: Counter) -> u64 {
        COUNTERS.iter().zip(self.0).find(|(one, _)| **one == counter).map_or(0, |(_, value)| value)
    }

    /// What a counter of `snapshot` has counted since.
    pub(super) fn since<S: SegmentSource>(&self, snapshot: &Snapshot<'_, S>, counter: Counter) -> u64 {
        snapshot.counter(counter).saturating_sub(self.of(counter))
    }
}
