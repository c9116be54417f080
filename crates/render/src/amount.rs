//! Numbers as people read them.

use heapwise_profile::metric::{Unit, column};
use heapwise_profile::quantity;

/// What a metric counts, in words; the name of one that only a file has.
#[must_use]
pub fn metric_words(name: &str) -> &str {
    match name {
        "inuse_space" => "live bytes",
        "inuse_objects" => "live blocks",
        "alloc_space" => "allocated bytes",
        "alloc_objects" => "allocated blocks",
        column::PEAK_SPACE => "live bytes at the peak",
        name => name,
    }
}

/// How amounts of memory are written. Counts of blocks are plain integers in every form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Amounts {
    /// `6.6`, in units of 2²⁰ bytes, as jeprof does.
    #[default]
    Megabytes,
    /// `6926352`.
    Bytes,
    /// `6.61 MiB`, each number with the unit that suits it.
    Human,
}

impl Amounts {
    /// A number without the unit that [`Self::unit`] names once for all.
    #[must_use]
    pub fn format(self, value: f64, unit: Unit) -> String {
        match (unit, self) {
            // Truncated, because jeprof prints estimates with `%d`.
            (Unit::Objects, _) | (Unit::Bytes, Amounts::Bytes) => format!("{}", value as i64),
            (Unit::Bytes, Amounts::Megabytes) => format!("{:.1}", value / 1_048_576.0),
            (Unit::Bytes, Amounts::Human) => quantity::bytes(value),
        }
    }

    /// The unit shared by all numbers of a report; empty where each number has its own.
    #[must_use]
    pub fn unit(self, unit: Unit) -> &'static str {
        match (unit, self) {
            (Unit::Objects, _) => "objects",
            (Unit::Bytes, Amounts::Megabytes) => "MB",
            (Unit::Bytes, Amounts::Bytes) => "B",
            (Unit::Bytes, Amounts::Human) => "",
        }
    }

    /// A number with its unit: `6.6 MB`.
    #[must_use]
    pub fn with_unit(self, value: f64, unit: Unit) -> String {
        let number = self.format(value, unit);
        match self.unit(unit) {
            "" => number,
            name => format!("{number} {name}"),
        }
    }
}

/// `12.3%`, and what C prints for a share of nothing.
#[must_use]
pub fn percent(part: f64, whole: f64) -> String {
    if whole != 0.0 {
        return format!("{:.1}%", part * 100.0 / whole);
    }
    match part {
        0.0 => "nan",
        part if part > 0.0 => "+inf",
        _ => "-inf",
    }
    .to_owned()
}

/// An amount for a picture: its number and unit, objects as plain counts.
#[must_use]
pub fn label(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => quantity::bytes(value),
        Unit::Objects => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jeprof_numbers() {
        // compat: 6 926 352 bytes are `6.6` MB; `%d` cuts off, it does not round.
        assert_eq!(Amounts::Megabytes.with_unit(6_926_352.0, Unit::Bytes), "6.6 MB");
        assert_eq!(Amounts::Bytes.with_unit(69.9, Unit::Bytes), "69 B");
        assert_eq!(Amounts::Megabytes.with_unit(120.0, Unit::Objects), "120 objects");
        assert_eq!(percent(0.0, 0.0), "nan");
        assert_eq!(percent(-1.0, 0.0), "-inf");
        assert_eq!(percent(1.0, 3.0), "33.3%");
    }
}
