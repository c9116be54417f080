//! The cost of the agent, its budget, and the interval that keeps to it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

/// What the agent may take of the whole host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Share of one core: 0.01 is 1 %.
    pub cpu: f64,
    /// Resident bytes.
    pub memory_bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { cpu: 0.01, memory_bytes: 64 << 20 }
    }
}

/// What the agent took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Share of one core since the previous round.
    pub cpu: f64,
    /// CPU time since the start.
    pub cpu_time: Duration,
    /// Resident bytes.
    pub resident_bytes: u64,
}

/// Measures the agent's own process.
#[derive(Debug)]
pub(crate) struct Meter {
    measured: Instant,
    cpu_time: Duration,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { measured: Instant::now(), cpu_time: cpu_time() }
    }

    /// The cost since the previous measurement. The first round, which follows the start at once,
    /// is measured against the interval as all others are.
    pub(crate) fn measure(&mut self, interval: Duration) -> Cost {
        let (now, cpu_time) = (Instant::now(), cpu_time());
        let elapsed = now.duration_since(self.measured).max(interval).as_secs_f64();
        let used = cpu_time.saturating_sub(self.cpu_time).as_secs_f64();
        (self.measured, self.cpu_time) = (now, cpu_time);
        let cpu = if elapsed > 0.0 { used / elapsed } else { 0.0 };
        Cost { cpu, cpu_time, resident_bytes: resident_bytes() }
    }
}

/// CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * page_size() as u64
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
            cost if cost.resident_bytes > budget.memory_bytes => Some(Excess::Memory),
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

    fn cost(cpu: f64, resident_bytes: u64) -> Cost {
        Cost { cpu, resident_bytes, ..Cost::default() }
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

    #[test]
    fn the_meter_sees_this_process() {
        let mut meter = Meter::new();
        let started = cpu_time();
        while cpu_time() - started < Duration::from_millis(20) {}
        let cost = meter.measure(Duration::from_millis(1));
        assert!(cost.cpu > 0.0 && cost.cpu_time >= Duration::from_millis(20), "{cost:?}");
        assert!(cost.resident_bytes > 100_000, "{cost:?}");
    }

    #[test]
    fn a_first_round_costs_its_share_of_an_interval() {
        let mut meter = Meter::new();
        let started = cpu_time();
        while cpu_time() - started < Duration::from_millis(20) {}
        let cost = meter.measure(Duration::from_secs(3600));
        assert!(cost.cpu > 0.0 && cost.cpu < Budget::default().cpu, "{cost:?}");
    }
}
