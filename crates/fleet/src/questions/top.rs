//! The functions that hold most memory across the fleet, now: by the last profile of every process
//! that runs.

use super::{Resolution, Scope};

/// Common table expressions: `last` has the time of the last samples of every process that runs.
/// Samples as received have the times of their profiles, so that no sample is read for it.
fn last_samples(scope: &Scope) -> String {
    let seen = format!(
        "seen AS (SELECT process_id, max(time_ns) AS time_ns, max(\"end\") AS ended FROM profiles \
         WHERE {} GROUP BY process_id)",
        scope.condition(""),
    );
    let last = match scope.resolution {
        Resolution::Minute => "SELECT process_id, time_ns FROM seen WHERE ended = ''".to_owned(),
        Resolution::Hour | Resolution::Day => format!(
            "SELECT s.process_id, max(s.time_ns) AS time_ns FROM {} s \
             JOIN seen ON s.process_id = seen.process_id WHERE {} AND seen.ended = '' GROUP BY s.process_id",
            scope.samples(),
            scope.condition("s."),
        ),
    };
    format!("{seen},\nlast AS ({last})")
}

/// The SQL of the last samples as received, by stack, with the columns of `samples`.
#[must_use]
pub fn samples_sql(scope: &Scope) -> String {
    let scope = &Scope { resolution: Resolution::Minute, ..scope.clone() };
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

/// The SQL. Hosts are counted for the listed functions only: every frame of every stack on every
/// host would take most of the time.
#[must_use]
pub fn sql(scope: &Scope) -> String {
    let (samples, limit) = (scope.samples(), scope.limit);
    let order = "ORDER BY self_bytes DESC, total_bytes DESC, function";
    let of_last =
        format!("{samples} s JOIN last ON s.process_id = last.process_id AND s.time_ns = last.time_ns");
    format!(
        "WITH {},\n\
         held AS (SELECT s.stack_id, CAST(sum(s.inuse_bytes) AS DOUBLE) AS bytes, \
         CAST(sum(s.inuse_objects) AS DOUBLE) AS objects FROM {of_last} WHERE {condition} GROUP BY s.stack_id),\n\
         own AS (SELECT functions.name, sum(held.bytes) AS bytes, sum(held.objects) AS objects FROM held \
         JOIN stacks ON held.stack_id = stacks.stack_id JOIN functions ON stacks.leaf_fn = functions.fn_id \
         GROUP BY functions.name),\n\
         with_callees AS (SELECT functions.name, sum(held.bytes) AS bytes FROM held \
         JOIN frames ON held.stack_id = frames.stack_id \
         JOIN functions ON frames.fn_id = functions.fn_id WHERE frames.is_first GROUP BY functions.name),\n\
         listed AS (SELECT with_callees.name AS function, coalesce(own.bytes, 0) AS self_bytes, \
         coalesce(own.objects, 0) AS self_objects, with_callees.bytes AS total_bytes \
         FROM with_callees LEFT JOIN own ON with_callees.name = own.name {order} LIMIT {limit}),\n\
         listed_stacks AS (SELECT listed.function, frames.stack_id FROM listed \
         JOIN functions ON listed.function = functions.name JOIN frames ON functions.fn_id = frames.fn_id \
         WHERE frames.is_first),\n\
         on_hosts AS (SELECT listed_stacks.function, count(DISTINCT s.host) AS hosts FROM {of_last} \
         JOIN listed_stacks ON s.stack_id = listed_stacks.stack_id WHERE {condition} \
         GROUP BY listed_stacks.function)\n\
         SELECT listed.function AS function, listed.self_bytes AS self_bytes, listed.self_objects, \
         listed.total_bytes AS total_bytes, on_hosts.hosts \
         FROM listed JOIN on_hosts ON listed.function = on_hosts.function {order}",
        last_samples(scope),
        condition = scope.condition("s."),
    )
}
