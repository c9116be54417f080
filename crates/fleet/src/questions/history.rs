//! The history of one site: live bytes of the fleet over time.

use super::{Scope, quoted};

/// The SQL: one row per step and release, the sum over the fleet of the mean of each process. The
/// newest rows, in the order of time.
#[must_use]
pub fn sql(scope: &Scope, site: &str) -> String {
    let step = scope.resolution.step_ns();
    let (condition, samples, limit) = (scope.condition("s."), scope.samples(), scope.limit);
    let site = quoted(site);
    format!(
        "WITH chosen AS (SELECT stack_id FROM stacks WHERE site = {site}),\n\
         points AS (SELECT s.time_ns - s.time_ns % {step} AS step_ns, s.release, s.host, s.process_id, \
         s.time_ns, CAST(sum(s.inuse_bytes) AS DOUBLE) AS bytes, CAST(sum(s.inuse_objects) AS DOUBLE) AS objects \
         FROM {samples} s JOIN chosen ON s.stack_id = chosen.stack_id WHERE {condition} \
         GROUP BY s.time_ns - s.time_ns % {step}, s.release, s.host, s.process_id, s.time_ns),\n\
         means AS (SELECT step_ns, release, host, process_id, avg(bytes) AS bytes, avg(objects) AS objects \
         FROM points GROUP BY step_ns, release, host, process_id),\n\
         newest AS (SELECT step_ns AS time_ns, release, sum(bytes) AS live_bytes, \
         sum(objects) AS live_objects, count(DISTINCT host) AS hosts, max(bytes) AS largest_process_bytes \
         FROM means GROUP BY step_ns, release ORDER BY step_ns DESC, release LIMIT {limit})\n\
         SELECT * FROM newest ORDER BY time_ns, release"
    )
}
