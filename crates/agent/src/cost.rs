//! The cost of the agent: its CPU time and its resident memory, measured in every round.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What the agent took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Share of one core since the previous round.
    pub cpu: f64,
    /// CPU time since the start.
    pub cpu_time: Duration,
    /// Resident bytes at the end of the round, mapped pages of files included.
    pub resident_bytes: u64,
    /// Most resident bytes since the previous round.
    pub round_peak_bytes: u64,
    /// Most resident bytes since the start.
    pub peak_bytes: u64,
}

/// Measures the agent's own process.
#[derive(Debug)]
pub(crate) struct Meter {
    measured: Instant,
    cpu_time: Duration,
    /// The kernel's peak at the start of the round.
    first_peak_bytes: u64,
    peak_bytes: u64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let memory = Memory::read();
        Self {
            measured: Instant::now(),
            cpu_time: cpu_time(),
            first_peak_bytes: restart_peak(),
            peak_bytes: memory.peak_bytes,
        }
    }

    /// The cost since the previous measurement. The first round, which follows the start at once,
    /// is measured against the interval as all others are.
    pub(crate) fn measure(&mut self, interval: Duration) -> Cost {
        let (now, cpu_time) = (Instant::now(), cpu_time());
        let elapsed = now.duration_since(self.measured).max(interval).as_secs_f64();
        let used = cpu_time.saturating_sub(self.cpu_time).as_secs_f64();
        (self.measured, self.cpu_time) = (now, cpu_time);
        let cpu = if elapsed > 0.0 { used / elapsed } else { 0.0 };
        let memory = Memory::read();
        let round_peak_bytes = memory.peak_since(self.first_peak_bytes);
        self.peak_bytes = self.peak_bytes.max(round_peak_bytes);
        self.first_peak_bytes = restart_peak();
        Cost {
            cpu,
            cpu_time,
            resident_bytes: memory.resident_bytes,
            round_peak_bytes,
            peak_bytes: self.peak_bytes,
        }
    }
}

/// CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Resident memory as the kernel states it.
#[derive(Debug, Clone, Copy)]
struct Memory {
    resident_bytes: u64,
    /// Most resident bytes since the start, or since the last restart of the peak.
    peak_bytes: u64,
}

impl Memory {
    fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self { resident_bytes: bytes_of(&status, "VmRSS:"), peak_bytes: bytes_of(&status, "VmHWM:") }
    }

    /// The peak of a round that began with a peak of `first_bytes`. Where the kernel cannot restart
    /// its peak, an older peak may hide the one of the round.
    fn peak_since(self, first_bytes: u64) -> u64 {
        let is_new = self.peak_bytes > first_bytes;
        if is_new { self.peak_bytes.max(self.resident_bytes) } else { self.resident_bytes }
    }
}

/// Lets the kernel's peak start again at the resident bytes of this moment; the peak after that.
fn restart_peak() -> u64 {
    // Without the right, or with a kernel that has no such file, the peak stays.
    let _ = fs::write("/proc/self/clear_refs", "5");
    Memory::read().peak_bytes
}

fn bytes_of(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    value.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;
    use crate::budget::Budget;

    /// Tests of one process share the kernel's peak, which each meter restarts.
    fn alone() -> MutexGuard<'static, ()> {
        static METER: Mutex<()> = Mutex::new(());
        METER.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spend(time: Duration) {
        let started = cpu_time();
        while cpu_time() - started < time {}
    }

    #[test]
    fn the_meter_sees_this_process() {
        let _alone = alone();
        let mut meter = Meter::new();
        spend(Duration::from_millis(20));
        let cost = meter.measure(Duration::from_millis(1));
        assert!(cost.cpu > 0.0 && cost.cpu_time >= Duration::from_millis(20), "{cost:?}");
        assert!(cost.resident_bytes > 100_000, "{cost:?}");
    }

    #[test]
    fn a_first_round_costs_its_share_of_an_interval() {
        let _alone = alone();
        let mut meter = Meter::new();
        spend(Duration::from_millis(20));
        let cost = meter.measure(Duration::from_secs(3600));
        assert!(cost.cpu > 0.0 && cost.cpu < Budget::default().cpu, "{cost:?}");
    }

    /// Memory that is freed before the end of a round is part of the peak of this round, and of no
    /// later round.
    #[test]
    fn memory_within_a_round_is_part_of_its_peak() {
        let _alone = alone();
        const BYTES: u64 = 128 << 20;
        let mut meter = Meter::new();
        let before = meter.measure(Duration::ZERO);
        drop(black_box(vec![1_u8; BYTES as usize]));
        let during = meter.measure(Duration::ZERO);
        let after = meter.measure(Duration::ZERO);
        assert!(during.round_peak_bytes >= BYTES, "{before:?} {during:?}");
        assert!(during.resident_bytes < during.round_peak_bytes - BYTES / 2, "{during:?}");
        assert!(after.round_peak_bytes < during.round_peak_bytes - BYTES / 2, "{during:?} {after:?}");
        assert_eq!(after.peak_bytes, during.peak_bytes);
    }

    /// Without a restart, the kernel's peak of an earlier round says nothing about this one.
    #[test]
    fn a_peak_that_cannot_restart_counts_once() {
        let memory = Memory { resident_bytes: 10, peak_bytes: 100 };
        assert_eq!(memory.peak_since(50), 100);
        assert_eq!(memory.peak_since(100), 10);
    }
}
