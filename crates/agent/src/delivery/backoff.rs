//! Waits between attempts: doubled each time, bounded, and spread over hosts.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(120);

/// The waits of one receiver.
#[derive(Debug)]
pub(super) struct Backoff {
    wait: Duration,
    random: u64,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        // Seeds may be small numbers: all bits of the state depend on each.
        Self { wait: FIRST, random: (seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    /// A request was answered.
    pub(super) fn reset(&mut self) {
        self.wait = FIRST;
    }

    /// The next wait: between half and all of the present one.
    pub(super) fn next(&mut self) -> Duration {
        // xorshift: hosts that lost the same server must not come back at the same moment.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let share = 0.5 + (self.random >> 40) as f64 / (1u64 << 25) as f64;
        let wait = self.wait.mul_f64(share);
        self.wait = (self.wait * 2).min(LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_within_their_bounds() {
        let mut backoff = Backoff::new(42);
        let mut whole = FIRST;
        for _ in 0..20 {
            let wait = backoff.next();
            assert!(wait >= whole / 2 && wait <= whole, "{wait:?} of {whole:?}");
            whole = (whole * 2).min(LONGEST);
        }
        assert_eq!(whole, LONGEST);
        backoff.reset();
        assert!(backoff.next() <= FIRST);
        assert_ne!(Backoff::new(1).next(), Backoff::new(77).next());
    }
}
