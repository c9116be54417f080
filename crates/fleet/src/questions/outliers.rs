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
#[must_use]
pub fn sql(scope: &Scope) -> String {
    let averages = scope.host_averages("");
    let limit = scope.limit;
    format!(
        "WITH {averages},\n\
         pairs AS (SELECT DISTINCT release, site_id FROM averages),\n\
         on_hosts AS (SELECT hosts_seen.release, hosts_seen.host, pairs.site_id, \
         coalesce(averages.bytes, 0) AS bytes FROM hosts_seen \
         JOIN pairs ON hosts_seen.release = pairs.release \
         LEFT JOIN averages ON averages.release = hosts_seen.release AND averages.host = hosts_seen.host \
         AND averages.site_id = pairs.site_id),\n\
         medians AS (SELECT release, site_id, median(bytes) AS middle, count(*) AS hosts \
         FROM on_hosts GROUP BY release, site_id),\n\
         spreads AS (SELECT on_hosts.release, on_hosts.site_id, \
         median(abs(on_hosts.bytes - medians.middle)) AS spread FROM on_hosts \
         JOIN medians ON on_hosts.release = medians.release AND on_hosts.site_id = medians.site_id \
         GROUP BY on_hosts.release, on_hosts.site_id),\n\
         distances AS (SELECT on_hosts.release, on_hosts.host, on_hosts.site_id, on_hosts.bytes, \
         medians.middle, medians.hosts, (on_hosts.bytes - medians.middle) / \
         (CASE WHEN {DEVIATION} * spreads.spread > {LEAST_SPREAD}.0 THEN {DEVIATION} * spreads.spread \
         ELSE {LEAST_SPREAD}.0 END) AS distance FROM on_hosts \
         JOIN medians ON on_hosts.release = medians.release AND on_hosts.site_id = medians.site_id \
         JOIN spreads ON on_hosts.release = spreads.release AND on_hosts.site_id = spreads.site_id)\n\
         SELECT distances.host, sites.site, distances.distance, distances.bytes AS live_bytes, \
         distances.middle AS median_bytes, distances.hosts, distances.release FROM distances \
         JOIN sites ON distances.site_id = sites.site_id \
         WHERE distances.distance >= {LEAST_DISTANCE} AND distances.hosts >= {LEAST_HOSTS} \
         ORDER BY distances.bytes - distances.middle DESC, distances.host, sites.site LIMIT {limit}"
    )
}
