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

/// `1.50 MiB`: three significant digits, IEC units. The page's `format.ts` has the same rule.
#[must_use]
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = value;
    let mut unit = 0;
    while scaled.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let decimals = match scaled.abs() {
        _ if unit == 0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$} {}", UNITS[unit])
}

/// `12.3 s`, `45 ms`, `2 min 03 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1000.0)
    } else if seconds < 120.0 {
        format!("{seconds:.1} s")
    } else if seconds < 7200.0 {
        format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    } else {
        format!("{} h {:02} min", time.as_secs() / 3600, time.as_secs() / 60 % 60)
    }
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
        for (value, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1024.0, "1.00 KiB"),
            (10.0 * 1024.0, "10.0 KiB"),
            (1_572_864.0, "1.50 MiB"),
            (1_048_576.0 * 24.0, "24.0 MiB"),
            (-1_048_576.0 * 512.0, "-512 MiB"),
            (2_f64.powi(40) * 3.5, "3.50 TiB"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn times() {
        assert_eq!(parse_duration("305ms"), Ok(Duration::from_millis(305)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert!(parse_duration("-1").is_err());
        assert_eq!(duration(Duration::from_secs(123)), "2 min 03 s");
    }
}
