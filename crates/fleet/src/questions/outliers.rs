//! Hosts that hold far more of a site than the other hosts of the same release.

use super::Scope;

/// Least distance from the median, in robust standard deviations.
pub const LEAST_DISTANCE: f64 = 5.0;
/// Fewest hosts that a median is taken of.
pub const LEAST_HOSTS: usize = 3;
/// Spread below which hosts count as equal: bytes.
const LEAST_SPREAD: u64 = 64 << 10;
/// A standard deviation in median absolute deviations, for a normal distribution.
const DEVIATION: f64 = 1.4826;

/// The SQL. The distance is (value − median) / (1.4826 × median absolute deviation): one extreme
/// host changes mean and standard deviation, but not the median. Hosts without a site count as
/// zero.
///
/// Medians are sums of the middle values of a sorted window, so that the samples are read once: an
/// engine that expands every use of a common table expression would read them for each. The hosts
/// without a site have no rows. They come first in the order of bytes, with zero. In the order of
/// deviations they stand together, with the median as their deviation.
#[must_use]
pub fn sql(scope: &Scope) -> String {
    let averages = scope.host_averages("");
    let limit = scope.limit;
    let group = "OVER (PARTITION BY release, site_id)";
    let (of_bytes, of_deviation) = (
        middle_weight("absent + place"),
        middle_weight("place + (CASE WHEN deviation > middle THEN absent ELSE 0 END)"),
    );
    format!(
        "WITH {averages},\n\
         host_counts AS (SELECT release, count(*) AS hosts FROM hosts_seen GROUP BY release),\n\
         present AS (SELECT averages.release, averages.host, averages.site_id, averages.bytes, \
         host_counts.hosts FROM averages JOIN host_counts ON averages.release = host_counts.release \
         WHERE host_counts.hosts >= {LEAST_HOSTS}),\n\
         ranked AS (SELECT release, host, site_id, bytes, hosts, hosts - count(*) {group} AS absent, \
         {} AS place FROM present),\n\
         middles AS (SELECT release, host, site_id, bytes, hosts, absent, \
         sum(bytes * {of_bytes}) {group} AS middle FROM ranked),\n\
         deviations AS (SELECT release, host, site_id, bytes, hosts, absent, middle, \
         abs(bytes - middle) AS deviation, {} AS place FROM middles),\n\
         weights AS (SELECT release, host, site_id, bytes, hosts, middle, deviation, \
         {of_deviation} AS weight FROM deviations),\n\
         spreads AS (SELECT release, host, site_id, bytes, hosts, middle, {DEVIATION} * \
         (sum(weight * deviation) {group} + (1 - sum(weight) {group}) * middle) AS spread FROM weights),\n\
         distances AS (SELECT release, host, site_id, bytes, hosts, middle, (bytes - middle) / \
         (CASE WHEN spread > {LEAST_SPREAD}.0 THEN spread ELSE {LEAST_SPREAD}.0 END) AS distance \
         FROM spreads)\n\
         SELECT distances.host, sites.site, distances.distance, distances.bytes AS live_bytes, \
         distances.middle AS median_bytes, distances.hosts, distances.release FROM distances \
         JOIN sites ON distances.site_id = sites.site_id \
         WHERE distances.distance >= {LEAST_DISTANCE} \
         ORDER BY distances.bytes - distances.middle DESC, distances.host, sites.site LIMIT {limit}",
        place_by("bytes"),
        place_by("abs(bytes - middle)"),
    )
}

/// The place of a host among those with the site, from 1.
fn place_by(value: &str) -> String {
    format!("CAST(row_number() OVER (PARTITION BY release, site_id ORDER BY {value}) AS BIGINT)")
}

/// The part of the value at a place in the median of `hosts` values: 1 in the middle, and a half
/// for each of the two values there when their number is even.
fn middle_weight(place: &str) -> String {
    format!(
        "(CASE WHEN 2 * ({place}) = hosts + 1 THEN 1.0 \
         WHEN 2 * ({place}) = hosts OR 2 * ({place}) = hosts + 2 THEN 0.5 ELSE 0.0 END)"
    )
}
