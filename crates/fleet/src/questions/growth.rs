//! Sites that grow: slope times correlation of the live bytes of each process over time, for sites
//! that grow on most of the hosts that run the release.
//!
//! The slope alone ranks large noisy sites first; the correlation is near zero for noise.

use super::Scope;
use crate::day::{HOUR_NS, SECOND_NS};

/// Fewest profiles of a process for a trend.
pub const LEAST_POINTS: usize = 5;
/// Least share of the hosts of a release on which a site grows.
pub const LEAST_SHARE: f64 = 0.5;
/// Least correlation on a host where a site grows. Noise of 10 points reaches it on few hosts.
pub const LEAST_CORRELATION: f64 = 0.5;

/// The SQL. A site that does not change has slope and correlation zero. Times are relative to the
/// start of the scope: nanoseconds since the epoch have more digits than a double.
#[must_use]
pub fn sql(scope: &Scope) -> String {
    let (condition, samples, limit) = (scope.condition("s."), scope.samples(), scope.limit);
    let from = scope.from_ns;
    let hours = HOUR_NS / SECOND_NS;
    format!(
        "WITH points AS (SELECT s.process_id, stacks.site_id, s.time_ns, \
         CAST(sum(s.inuse_bytes) AS DOUBLE) AS bytes FROM {samples} s \
         JOIN stacks ON s.stack_id = stacks.stack_id WHERE {condition} \
         GROUP BY s.process_id, stacks.site_id, s.time_ns),\n\
         spots AS (SELECT process_id, site_id, bytes, \
         CAST(time_ns - {from} AS DOUBLE) / {SECOND_NS}.0 / {hours}.0 AS hours FROM points),\n\
         trends AS (SELECT process_id, site_id, \
         CASE WHEN min(bytes) < max(bytes) THEN regr_slope(bytes, hours) ELSE 0 END AS slope, \
         CASE WHEN min(bytes) < max(bytes) THEN corr(bytes, hours) ELSE 0 END AS r, \
         max(bytes) AS bytes FROM spots GROUP BY process_id, site_id HAVING count(*) >= {LEAST_POINTS}),\n\
         processes AS (SELECT process_id, max(service) AS service, max(release) AS release, \
         max(host) AS host FROM profiles WHERE {} GROUP BY process_id),\n\
         on_hosts AS (SELECT processes.service, processes.release, trends.site_id, processes.host, \
         sum(trends.slope * abs(trends.r)) AS score, sum(trends.slope) AS slope, max(trends.r) AS r, \
         sum(trends.bytes) AS bytes FROM trends \
         JOIN processes ON trends.process_id = processes.process_id \
         GROUP BY processes.service, processes.release, trends.site_id, processes.host),\n\
         sums AS (SELECT service, release, site_id, avg(score) AS score, avg(slope) AS slope, avg(r) AS r, \
         count(*) AS hosts, avg(bytes) AS bytes, \
         sum(CASE WHEN score > 0 AND r >= {LEAST_CORRELATION} THEN 1 ELSE 0 END) AS growing \
         FROM on_hosts GROUP BY service, release, site_id),\n{}\n\
         SELECT sites.site, sums.score AS score, sums.slope AS bytes_per_hour, sums.r AS correlation, \
         sums.growing AS growing_hosts, sums.hosts, sums.bytes AS live_bytes, sums.service, sums.release \
         FROM sums JOIN sites ON sums.site_id = sites.site_id \
         WHERE sums.score > 0 AND sums.growing >= {LEAST_SHARE} * sums.hosts \
         ORDER BY sums.score DESC, sites.site LIMIT {limit}",
        scope.condition(""),
        super::SITES,
    )
}
