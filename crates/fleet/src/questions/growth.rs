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
/// Least variance of a site that changes, as a share of its mean square. The variance is the
/// difference of two sums, each of which is exact to 16 digits.
const LEAST_VARIANCE: &str = "1e-12";

/// The SQL. A site that does not change has correlation zero.
#[must_use]
pub fn sql(scope: &Scope) -> String {
    let limit = scope.limit;
    format!(
        "WITH {},\n{},\n\
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
        points(scope),
        trends(scope),
        scope.condition(""),
        super::SITES,
    )
}

/// `points`: the live bytes of a process, a site and a time.
///
/// A sum over the stacks of a site has one group for every row where most sites have one stack. The
/// rows of sites with one stack in each release are points without it: 0.8 instead of 2.9 CPU
/// seconds for 10⁷ rows.
fn points(scope: &Scope) -> String {
    let (condition, samples) = (scope.condition("s."), scope.samples());
    let of_scope = scope.condition("");
    format!(
        "present AS (SELECT DISTINCT release, stack_id FROM {samples} WHERE {of_scope}),\n\
         by_release AS (SELECT present.release, stacks.site_id, count(*) AS stacks FROM present \
         JOIN stacks ON present.stack_id = stacks.stack_id GROUP BY present.release, stacks.site_id),\n\
         stack_counts AS (SELECT site_id, max(stacks) AS stacks FROM by_release GROUP BY site_id),\n\
         placed AS (SELECT stacks.stack_id, stacks.site_id, stack_counts.stacks FROM stacks \
         JOIN stack_counts ON stacks.site_id = stack_counts.site_id),\n\
         points AS (SELECT s.process_id, placed.site_id, s.time_ns, \
         CAST(sum(s.inuse_bytes) AS DOUBLE) AS bytes FROM {samples} s \
         JOIN placed ON s.stack_id = placed.stack_id WHERE placed.stacks > 1 AND {condition} \
         GROUP BY s.process_id, placed.site_id, s.time_ns \
         UNION ALL SELECT s.process_id, placed.site_id, s.time_ns, \
         CAST(s.inuse_bytes AS DOUBLE) AS bytes FROM {samples} s \
         JOIN placed ON s.stack_id = placed.stack_id WHERE placed.stacks = 1 AND {condition})"
    )
}

/// `trends`: slope, correlation and most bytes of a process and a site.
///
/// DataFusion computes `regr_slope` for one group at a time; sums take a third of the time. Times
/// count from the end of the scope, because nanoseconds since the epoch have more digits than a
/// double, and the start of the scope may be long before the first profile.
fn trends(scope: &Scope) -> String {
    let until = scope.until_ns;
    let hours = HOUR_NS / SECOND_NS;
    format!(
        "spots AS (SELECT process_id, site_id, bytes, \
         CAST(time_ns - {until} AS DOUBLE) / {SECOND_NS}.0 / {hours}.0 AS hours FROM points),\n\
         totals AS (SELECT process_id, site_id, CAST(count(*) AS DOUBLE) AS n, sum(hours) AS t, \
         sum(bytes) AS b, sum(hours * hours) AS tt, sum(hours * bytes) AS tb, sum(bytes * bytes) AS bb, \
         max(bytes) AS bytes FROM spots GROUP BY process_id, site_id HAVING count(*) >= {LEAST_POINTS}),\n\
         variances AS (SELECT process_id, site_id, bytes, n * bb AS square, \
         n * tt - t * t AS of_time, n * bb - b * b AS of_bytes, n * tb - t * b AS common FROM totals),\n\
         trends AS (SELECT process_id, site_id, bytes, \
         CASE WHEN of_time > 0 THEN common / of_time ELSE 0 END AS slope, \
         CASE WHEN of_time > 0 AND of_bytes > {LEAST_VARIANCE} * square \
         THEN common / sqrt(of_time * of_bytes) ELSE 0 END AS r FROM variances)"
    )
}
