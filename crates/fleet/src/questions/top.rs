//! The functions that hold most memory across the fleet, now: by the last profile of every process
//! that runs.

use super::Scope;

/// Common table expressions: `last` has the time of the last samples of every process that runs.
fn last_samples(scope: &Scope) -> String {
    format!(
        "seen AS (SELECT process_id, max(time_ns) AS time_ns, max(\"end\") AS ended FROM profiles \
         WHERE {} GROUP BY process_id),\n\
         last AS (SELECT s.process_id, max(s.time_ns) AS time_ns FROM {} s \
         JOIN seen ON s.process_id = seen.process_id WHERE {} AND seen.ended = '' GROUP BY s.process_id)",
        scope.condition(""),
        scope.samples(),
        scope.condition("s."),
    )
}

/// The SQL of the same samples by stack, with the columns of `samples`.
#[must_use]
pub fn samples_sql(scope: &Scope) -> String {
    let sum = |name: &str| format!("CAST(sum(s.{name}) AS BIGINT) AS {name}");
    format!(
        "WITH {}\nSELECT s.stack_id, {}, {}, {}, {}, sum(s.inuse_variance) AS inuse_variance FROM samples s \
         JOIN last ON s.process_id = last.process_id AND s.time_ns = last.time_ns \
         WHERE {} GROUP BY s.stack_id",
        last_samples(scope),
        sum("alloc_objects"),
        sum("alloc_bytes"),
        sum("inuse_objects"),
        sum("inuse_bytes"),
        scope.condition("s."),
    )
}

/// The SQL.
#[must_use]
pub fn sql(scope: &Scope) -> String {
    let (samples, limit) = (scope.samples(), scope.limit);
    format!(
        "WITH {},\n\
         held AS (SELECT s.stack_id, s.host, CAST(sum(s.inuse_bytes) AS DOUBLE) AS bytes, \
         CAST(sum(s.inuse_objects) AS DOUBLE) AS objects FROM {samples} s \
         JOIN last ON s.process_id = last.process_id AND s.time_ns = last.time_ns \
         WHERE {} GROUP BY s.stack_id, s.host),\n\
         own AS (SELECT functions.name, sum(held.bytes) AS bytes, sum(held.objects) AS objects FROM held \
         JOIN stacks ON held.stack_id = stacks.stack_id JOIN functions ON stacks.leaf_fn = functions.fn_id \
         GROUP BY functions.name),\n\
         with_callees AS (SELECT functions.name, sum(held.bytes) AS bytes, count(DISTINCT held.host) AS hosts \
         FROM held JOIN frames ON held.stack_id = frames.stack_id \
         JOIN functions ON frames.fn_id = functions.fn_id WHERE frames.is_first GROUP BY functions.name)\n\
         SELECT with_callees.name AS function, coalesce(own.bytes, 0) AS self_bytes, \
         coalesce(own.objects, 0) AS self_objects, with_callees.bytes AS total_bytes, with_callees.hosts \
         FROM with_callees LEFT JOIN own ON with_callees.name = own.name \
         ORDER BY self_bytes DESC, total_bytes DESC, function LIMIT {limit}",
        last_samples(scope),
        scope.condition("s."),
    )
}
