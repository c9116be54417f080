//! Days and hours of nanoseconds since the epoch, in UTC.

use heapwise_profile::calendar::Utc;

/// Nanoseconds of a second.
pub const SECOND_NS: i64 = 1_000_000_000;
/// Nanoseconds of a minute.
pub const MINUTE_NS: i64 = 60 * SECOND_NS;
/// Nanoseconds of an hour.
pub const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Nanoseconds of a day.
pub const DAY_NS: i64 = 24 * HOUR_NS;

/// The first nanosecond of the step that a time lies in.
#[must_use]
pub fn floor(time_ns: i64, step_ns: i64) -> i64 {
    time_ns - time_ns.rem_euclid(step_ns)
}

/// `2026-11-16`.
#[must_use]
pub fn date(time_ns: i64) -> String {
    let Utc { year, month, day, .. } = utc(time_ns);
    format!("{year:04}-{month:02}-{day:02}")
}

/// `2026-11-16T22:15:00Z`.
#[must_use]
pub fn timestamp(time_ns: i64) -> String {
    let Utc { hour, minute, second, .. } = utc(time_ns);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", date(time_ns))
}

/// Parses what [`timestamp`] writes, or nanoseconds since the epoch.
///
/// # Errors
/// For any other text; in words.
pub fn parse_moment(text: &str) -> Result<i64, String> {
    parse_timestamp(text).ok_or_else(|| "give a moment as 2026-11-16T22:15:00Z".to_owned())
}

fn parse_timestamp(text: &str) -> Option<i64> {
    if let Ok(time_ns) = text.parse() {
        return Some(time_ns);
    }
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<[u64; 3]> {
        let numbers: Option<Vec<u64>> = text.split(by).map(|part| part.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let is_date = (1970..=2261).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = Utc { year, month, day, hour, minute, second }.to_unix();
    i64::try_from(seconds).ok()?.checked_mul(SECOND_NS)
}

fn utc(time_ns: i64) -> Utc {
    Utc::from_unix(u64::try_from(time_ns.div_euclid(SECOND_NS)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_come_back() {
        let text = "2026-11-16T22:15:09Z";
        let time_ns = parse_timestamp(text).unwrap();
        assert_eq!(timestamp(time_ns), text);
        assert_eq!(date(floor(time_ns, DAY_NS)), "2026-11-16");
        assert_eq!(timestamp(floor(time_ns, HOUR_NS)), "2026-11-16T22:00:00Z");
        assert_eq!(parse_timestamp("17"), Some(17));
        for text in ["", "2026-11-16", "2026-13-16T22:15:09Z", "2026-11-16T24:15:09Z", "aTbZ"] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
