//! Sizes and times as people type and read them.

use std::time::Duration;

/// Parses `4096`, `4K`, `512KiB`, `1.5M`, `2G`; powers of 1024.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        other => return Err(format!("unknown unit `{other}`; use K, M or G")),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is not a size; try 512K"))?;
    let bytes = number * scale as f64;
    if bytes.is_finite() && bytes < 9e15 { Ok(bytes as u64) } else { Err(format!("`{text}` is too large")) }
}

/// A sampling rate: a size of at least one byte.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        0 => Err("a rate of 0 samples nothing; use 1 for every byte, or --exact".into()),
        rate => Ok(rate),
    }
}

/// Parses `5`, `5s`, `305ms`, `5m`, `1h` as a duration; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("unknown unit `{other}`; use ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is not a time; try 60s"))?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| format!("`{text}` is too long"))
}

/// `1.5 MB`, with three significant digits or so; powers of 1024 as jeprof has them.
pub fn bytes(value: f64) -> String {
    let mut scaled = value;
    let mut unit = "B";
    for next in ["KB", "MB", "GB", "TB"] {
        if scaled.abs() < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{scaled:.0} B") } else { format!("{scaled:.1} {unit}") }
}

/// `12.3 s`, `45 ms`, `2 m 03 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1000.0)
    } else if seconds < 120.0 {
        format!("{seconds:.1} s")
    } else if seconds < 7200.0 {
        format!("{} m {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    } else {
        format!("{} h {:02} m", time.as_secs() / 3600, time.as_secs() / 60 % 60)
    }
}

/// `2026-11-15 09:54:17 UTC` of seconds since the epoch.
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days to a date of the Gregorian calendar, years beginning in March (Hinnant, "chrono-Compatible
    // Low-Level Date Algorithms").
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_bytes("512K"), Ok(524_288));
        assert_eq!(parse_bytes("1.5MiB"), Ok(1_572_864));
        assert_eq!(parse_bytes("17"), Ok(17));
        assert!(parse_bytes("x").is_err() && parse_bytes("5Q").is_err() && parse_bytes("").is_err());
        assert!(parse_rate("0").is_err());
        assert_eq!(bytes(1_572_864.0), "1.5 MB");
        assert_eq!(bytes(-2048.0), "-2.0 KB");
    }

    #[test]
    fn dates() {
        // As `date -u -d @N` has them.
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_794_736_457), "2026-11-15 09:54:17 UTC");
    }

    #[test]
    fn times() {
        assert_eq!(parse_duration("305ms"), Ok(Duration::from_millis(305)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert!(parse_duration("-1").is_err());
        assert_eq!(duration(Duration::from_secs(123)), "2 m 03 s");
    }
}
