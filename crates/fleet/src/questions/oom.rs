//! Processes that the kernel killed because memory was short, and what they held.

use super::Scope;

/// Sites listed of each process.
const MOST_SITES: usize = 5;

/// The SQL: the largest sites of the last profile of each such process.
#[must_use]
pub fn sql(scope: &Scope) -> String {
    let limit = scope.limit;
    format!(
        "WITH killed AS (SELECT profile_id, time_ns, service, release, host, program, pid, inuse_bytes \
         FROM profiles WHERE {} AND \"end\" = 'oom'),\n\
         held AS (SELECT s.profile_id, stacks.site_id, CAST(sum(s.inuse_bytes) AS DOUBLE) AS bytes \
         FROM samples s JOIN killed ON s.profile_id = killed.profile_id \
         JOIN stacks ON s.stack_id = stacks.stack_id GROUP BY s.profile_id, stacks.site_id),\n\
         ranked AS (SELECT profile_id, site_id, bytes, \
         row_number() OVER (PARTITION BY profile_id ORDER BY bytes DESC, site_id) AS place FROM held),\n{}\n\
         SELECT killed.time_ns, killed.host, killed.pid, killed.service, killed.release, killed.program, \
         CAST(killed.inuse_bytes AS DOUBLE) AS live_bytes, sites.site, ranked.bytes AS site_bytes FROM killed \
         JOIN ranked ON killed.profile_id = ranked.profile_id JOIN sites ON ranked.site_id = sites.site_id \
         WHERE ranked.place <= {MOST_SITES} \
         ORDER BY killed.time_ns DESC, killed.host, killed.pid, ranked.place LIMIT {limit}",
        scope.condition(""),
        super::SITES,
    )
}
