//! The monotonic clock as another process sees it: in a time namespace it may be days apart from
//! ours.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` of one process.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Nanoseconds to add to our own clock.
    ahead_ns: i64,
}

impl Clock {
    /// The clock of `pid`; our own when the offset is unknown.
    pub fn of(pid: u32) -> Self {
        let offset = |who: &str| offset_ns(&fs::read_to_string(format!("/proc/{who}/timens_offsets")).ok()?);
        let ahead = offset(&pid.to_string()).zip(offset("self")).map(|(other, own)| other.wrapping_sub(own));
        Self { ahead_ns: ahead.unwrap_or(0) }
    }

    /// Now, in nanoseconds.
    pub fn now_ns(self) -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        let own = (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64);
        own.wrapping_add_signed(self.ahead_ns)
    }
}

/// `monotonic SECONDS NANOSECONDS` of a `timens_offsets` file.
fn offset_ns(text: &str) -> Option<i64> {
    let mut fields = text.lines().find_map(|line| line.strip_prefix("monotonic"))?.split_whitespace();
    let mut number = || fields.next()?.parse::<i64>().ok();
    number()?.checked_mul(1_000_000_000)?.checked_add(number()?)
}

#[cfg(test)]
mod tests {
    use super::offset_ns;

    #[test]
    fn offsets_may_be_negative() {
        assert_eq!(offset_ns("monotonic           0         0\nboottime 0 0\n"), Some(0));
        assert_eq!(offset_ns("monotonic -3600 5\nboottime 1 1\n"), Some(-3_599_999_999_995));
        assert_eq!(offset_ns("boottime 1 1\n"), None);
    }
}
