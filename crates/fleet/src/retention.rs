//! How long samples are kept at each resolution.

use std::time::Duration;

/// Times after which samples expire. A time of zero keeps samples forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Samples as received.
    pub minutes: Duration,
    /// Roll-ups of hours, and the list of profiles.
    pub hours: Duration,
    /// Roll-ups of days.
    pub days: Duration,
}

/// A day.
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for Retention {
    fn default() -> Self {
        Self { minutes: 7 * DAY, hours: 90 * DAY, days: 730 * DAY }
    }
}

impl Retention {
    /// First nanosecond of samples that are kept as received.
    #[must_use]
    pub fn minutes_from(&self, now_ns: i64) -> i64 {
        from(self.minutes, now_ns)
    }

    /// First nanosecond of hours that are kept.
    #[must_use]
    pub fn hours_from(&self, now_ns: i64) -> i64 {
        from(self.hours, now_ns)
    }

    /// First nanosecond of days that are kept.
    #[must_use]
    pub fn days_from(&self, now_ns: i64) -> i64 {
        from(self.days, now_ns)
    }
}

fn from(kept: Duration, now_ns: i64) -> i64 {
    if kept.is_zero() {
        return i64::MIN;
    }
    now_ns.saturating_sub(i64::try_from(kept.as_nanos()).unwrap_or(i64::MAX))
}
