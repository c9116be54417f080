//! What the probe costs: one slow path in 64 is timed and counts for all.

use heapwise_format::segment::Counter;

use crate::atomics::Ordering;
use crate::{clock, segment};

const ONE_IN: u64 = 64;
/// Longer than any slow path takes: the thread was not running.
const MOST_NS: u64 = 100_000;

/// Measures from its making to its end.
pub(super) struct Timing {
    started: u64,
}

impl Timing {
    /// Starts the clock.
    pub(super) fn start() -> Self {
        Self { started: clock::monotonic_ns() }
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        let spent = clock::monotonic_ns().saturating_sub(self.started).min(MOST_NS);
        segment::counter(Counter::OwnNanos).fetch_add(spent * ONE_IN, Ordering::Relaxed);
    }
}
