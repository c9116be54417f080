//! The difference between two releases: average live bytes per host, by the site's name, so that
//! the comparison survives a rebuild.

use super::{Scope, quoted};

/// The SQL. Hosts without a site count as zero.
#[must_use]
pub fn sql(scope: &Scope, old: &str, new: &str) -> String {
    let (old, new) = (quoted(old), quoted(new));
    let averages = scope.host_averages(&format!(" AND release IN ({old}, {new})"));
    let limit = scope.limit;
    format!(
        "WITH {averages},\n\
         host_counts AS (SELECT release, count(*) AS hosts FROM hosts_seen GROUP BY release),\n\
         by_release AS (SELECT averages.release, averages.site_id, \
         sum(averages.bytes) / max(host_counts.hosts) AS bytes FROM averages \
         JOIN host_counts ON averages.release = host_counts.release \
         GROUP BY averages.release, averages.site_id),\n\
         compared AS (SELECT site_id, sum(CASE WHEN release = {old} THEN bytes ELSE 0 END) AS old_bytes, \
         sum(CASE WHEN release = {new} THEN bytes ELSE 0 END) AS new_bytes FROM by_release GROUP BY site_id)\n\
         SELECT sites.site, compared.new_bytes - compared.old_bytes AS change_bytes, compared.old_bytes, compared.new_bytes \
         FROM compared JOIN sites ON compared.site_id = sites.site_id \
         ORDER BY abs(compared.new_bytes - compared.old_bytes) DESC, sites.site LIMIT {limit}"
    )
}
