//! What processes cost: processor time and memory, as the kernel counts them.

use std::fs;
use std::ops::Sub;
use std::time::Duration;

/// Clock ticks a second of `/proc/<pid>/stat`: 100 on every Linux that user programs see.
const TICKS: f64 = 100.0;

/// Processor time of one process since its start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    ticks: u64,
}

impl Usage {
    /// Of a process now; nothing when it is gone.
    pub(crate) fn of(pid: u32) -> Self {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        Self { ticks: ticks(&stat).unwrap_or(0) }
    }

    /// Part of one core over `time`, in percent.
    pub(crate) fn percent(self, time: Duration) -> f64 {
        100.0 * self.ticks as f64 / TICKS / time.as_secs_f64()
    }

    /// Microseconds for each of `count` things.
    pub(crate) fn micros_each(self, count: u64) -> f64 {
        1e6 * self.ticks as f64 / TICKS / count.max(1) as f64
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { ticks: self.ticks.saturating_sub(before.ticks) }
    }
}

/// User and system ticks: the 14th and 15th field, counted after the name, which may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// The most memory a process had, in bytes.
pub(crate) fn peak_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    kilobytes.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_does_not_shift_its_ticks() {
        let stat = "12 (a) b c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0";
        let usage = Usage { ticks: ticks(stat).unwrap() };
        assert_eq!(usage.percent(Duration::from_secs(2)), 100.0);
        assert_eq!(usage.micros_each(1000), 2000.0);
    }
}
