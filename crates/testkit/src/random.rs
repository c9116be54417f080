//! Random numbers that follow from a seed, so that a failed round can be run again.

use std::time::Duration;

/// A linear congruential generator (Knuth's MMIX constants): sufficient for choosing the process to
/// kill and the time.
pub struct Random(u64);

impl Random {
    /// The numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// A moment within the first `most_ms` milliseconds.
    pub fn moment(&mut self, most_ms: u64) -> Duration {
        Duration::from_micros(self.below(most_ms * 1000))
    }
}
