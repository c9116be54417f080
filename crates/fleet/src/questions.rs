//! The questions that are built in, as SQL over the tables of the store.
//!
//! The SQL is that of DataFusion and DuckDB alike: joins and aggregates only, no lists,
//! no division of whole numbers. Each question ranks by its first number column.

pub mod diff;
pub mod growth;
pub mod history;
pub mod oom;
pub mod outliers;
pub mod top;

use crate::day::{DAY_NS, HOUR_NS, MINUTE_NS};
use crate::schema::Table;

/// The samples that a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Only this service.
    pub service: Option<String>,
    /// First nanosecond.
    pub from_ns: i64,
    /// First nanosecond after it.
    pub until_ns: i64,
    /// Resolution of the samples.
    pub resolution: Resolution,
    /// Rows of the answer.
    pub limit: usize,
}

/// Which samples are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Resolution {
    /// As received.
    Minute,
    /// Roll-ups of hours.
    Hour,
    /// Roll-ups of days.
    Day,
}

impl Resolution {
    /// The table of the samples.
    #[must_use]
    pub fn table(self) -> Table {
        match self {
            Resolution::Minute => Table::Samples,
            Resolution::Hour => Table::SamplesHour,
            Resolution::Day => Table::SamplesDay,
        }
    }

    /// Length of a step.
    #[must_use]
    pub fn step_ns(self) -> i64 {
        match self {
            Resolution::Minute => MINUTE_NS,
            Resolution::Hour => HOUR_NS,
            Resolution::Day => DAY_NS,
        }
    }

    /// Number of profiles of a row.
    fn points(self) -> &'static str {
        match self {
            Resolution::Minute => "1",
            Resolution::Hour | Resolution::Day => "points",
        }
    }
}

impl Scope {
    /// The table of the samples.
    fn samples(&self) -> &'static str {
        self.resolution.table().name()
    }

    /// The condition on rows of `samples` and `profiles`, whose columns have `prefix`.
    fn condition(&self, prefix: &str) -> String {
        let (from, until) = (self.from_ns, self.until_ns);
        let time = format!("{prefix}time_ns >= {from} AND {prefix}time_ns < {until}");
        match &self.service {
            Some(service) => format!("{time} AND {prefix}service = {}", quoted(service)),
            None => time,
        }
    }

    /// Average live bytes by release, host and site: the sum over all profiles of a host, divided
    /// by the minutes in which the host sent any. The rows are `release`, `host`, `site_id`,
    /// `bytes`; `hosts_seen` are the hosts with their minutes.
    fn host_averages(&self, further: &str) -> String {
        let condition = self.condition("");
        let minute = format!("time_ns - time_ns % {MINUTE_NS}");
        let (samples, points) = (self.samples(), self.resolution.points());
        format!(
            "hosts_seen AS (SELECT release, host, count(DISTINCT {minute}) AS minutes FROM profiles \
             WHERE {condition}{further} GROUP BY release, host),\n\
             held AS (SELECT release, host, stack_id, CAST(sum(inuse_bytes * {points}) AS DOUBLE) AS byte_minutes \
             FROM {samples} WHERE {condition}{further} GROUP BY release, host, stack_id),\n\
             averages AS (SELECT held.release, held.host, stacks.site_id, \
             sum(held.byte_minutes / hosts_seen.minutes) AS bytes FROM held \
             JOIN hosts_seen ON held.release = hosts_seen.release AND held.host = hosts_seen.host \
             JOIN stacks ON held.stack_id = stacks.stack_id \
             GROUP BY held.release, held.host, stacks.site_id),\n{SITES}"
        )
    }
}

/// Names of sites.
const SITES: &str = "sites AS (SELECT site_id, min(site) AS site FROM stacks GROUP BY site_id)";

/// A text as SQL.
#[must_use]
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_cannot_end_a_text() {
        assert_eq!(quoted("it's"), "'it''s'");
        assert_eq!(quoted("'; DROP TABLE x; --"), "'''; DROP TABLE x; --'");
    }
}
