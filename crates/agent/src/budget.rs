//! The budget of the agent, and the interval that keeps to it.

use std::time::Duration;

use crate::cost::Cost;

/// What the agent may take of the whole host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Share of one core: 0.01 is 1 %.
    pub cpu: f64,
    /// Resident bytes, at any time.
    pub memory_bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { cpu: 0.01, memory_bytes: 64 << 20 }
    }
}

/// Which part of the budget was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// CPU time.
    Cpu,
    /// Memory.
    Memory,
}

/// The interval between rounds: the wanted one, or a multiple of it while that is too expensive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    wanted: Duration,
    factor: u32,
}

/// Largest factor: a minute becomes about an hour.
const MOST_FACTOR: u32 = 64;

impl Pace {
    pub(crate) fn new(wanted: Duration) -> Self {
        Self { wanted, factor: 1 }
    }

    /// The interval in force.
    pub(crate) fn interval(self) -> Duration {
        self.wanted * self.factor
    }

    /// Whether it is longer than the wanted one.
    pub(crate) fn is_slowed(self) -> bool {
        self.factor > 1
    }

    /// Doubles the interval while the cost is above the budget, and halves it when half the
    /// interval would still be within.
    pub(crate) fn adapt(&mut self, cost: &Cost, budget: &Budget) -> Option<Excess> {
        let excess = match cost {
            cost if cost.cpu > budget.cpu => Some(Excess::Cpu),
            cost if cost.round_peak_bytes > budget.memory_bytes => Some(Excess::Memory),
            _ => None,
        };
        if excess.is_some() {
            self.factor = (self.factor * 2).min(MOST_FACTOR);
        } else if cost.cpu * 2.0 <= budget.cpu {
            self.factor = (self.factor / 2).max(1);
        }
        excess
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(cpu: f64, round_peak_bytes: u64) -> Cost {
        Cost { cpu, round_peak_bytes, ..Cost::default() }
    }

    #[test]
    fn the_interval_doubles_above_the_budget_and_comes_back() {
        let budget = Budget::default();
        let mut pace = Pace::new(Duration::from_secs(60));
        assert_eq!(pace.adapt(&cost(0.02, 1), &budget), Some(Excess::Cpu));
        assert_eq!((pace.interval().as_secs(), pace.is_slowed()), (120, true));
        assert_eq!(pace.adapt(&cost(0.008, 1), &budget), None);
        assert_eq!(pace.interval().as_secs(), 120);
        assert_eq!(pace.adapt(&cost(0.005, 1), &budget), None);
        assert_eq!((pace.interval().as_secs(), pace.is_slowed()), (60, false));
        assert_eq!(pace.adapt(&cost(0.0, 65 << 20), &budget), Some(Excess::Memory));
        for _ in 0..40 {
            pace.adapt(&cost(1.0, 1), &budget);
        }
        assert_eq!(pace.interval().as_secs(), 64 * 60);
    }
}
