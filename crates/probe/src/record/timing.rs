//! What the probe costs: one event in some is timed and counts for all.

use heapwise_format::segment::Counter;

use crate::atomics::Ordering;
use crate::thread::TICK_EVENTS;
use crate::{clock, segment};

/// Longer than any slow path takes: the thread was not running.
const MOST_NS: u64 = 100_000;

/// Measures from its making to its end.
pub(super) struct Timing {
    started: u64,
    one_in: u64,
}

impl Timing {
    /// Of an event at which a thread ticks.
    pub(super) fn of_tick() -> Self {
        Self::start(TICK_EVENTS.into())
    }

    /// Starts the clock, for one event of so many.
    pub(super) fn start(one_in: u64) -> Self {
        Self { started: clock::monotonic_ns(), one_in }
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        let spent = clock::monotonic_ns().saturating_sub(self.started).min(MOST_NS);
        segment::counter(Counter::OwnNanos).fetch_add(spent * self.one_in, Ordering::Relaxed);
    }
}
