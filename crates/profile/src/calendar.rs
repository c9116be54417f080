//! Dates of the Gregorian calendar in UTC (Hinnant, "chrono-Compatible Low-Level Date Algorithms").

/// A date and time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
    /// From 1970 on.
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// 1 to 31.
    pub day: u64,
    /// 0 to 23.
    pub hour: u64,
    /// 0 to 59.
    pub minute: u64,
    /// 0 to 59.
    pub second: u64,
}

/// Days from the first of March of the year 0 to 1970-01-01. Years that begin in March have their
/// leap day last.
const DAYS_BEFORE_1970: u64 = 719_468;
const DAYS_IN_400_YEARS: u64 = 146_097;

impl Utc {
    /// The date of `seconds` since the epoch.
    #[must_use]
    pub fn from_unix(seconds: u64) -> Self {
        let (days, rest) = (seconds / 86_400 + DAYS_BEFORE_1970, seconds % 86_400);
        let (era, day_of_era) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Self { year, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60 }
    }

    /// Seconds since the epoch: the reverse of [`Self::from_unix`]. 0 for dates before 1970.
    #[must_use]
    pub fn to_unix(self) -> u64 {
        let year = if self.month <= 2 { self.year.saturating_sub(1) } else { self.year };
        let march_month = if self.month > 2 { self.month - 3 } else { self.month + 9 };
        let day_of_year = (153 * march_month + 2) / 5 + self.day.max(1) - 1;
        let year_of_era = year % 400;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = (year / 400 * DAYS_IN_400_YEARS + day_of_era).saturating_sub(DAYS_BEFORE_1970);
        days * 86_400 + self.hour * 3600 + self.minute * 60 + self.second
    }
}

impl std::fmt::Display for Utc {
    /// `2026-11-15 09:54:17 UTC`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(out, "{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_date_prints_them() {
        // `date -u -d @N`.
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_794_736_457, "2026-11-15 09:54:17 UTC"),
        ] {
            let date = Utc::from_unix(seconds);
            assert_eq!(date.to_string(), text);
            assert_eq!(date.to_unix(), seconds);
        }
    }
}
