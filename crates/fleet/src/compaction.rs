//! Maintenance of a store: merges small segments, writes roll-ups of hours and days, deletes what
//! has expired. The manifest changes once, at the end.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::arrow::array::RecordBatch;
use futures::StreamExt;
use heapwise_capture::failure::{Failure, Outcome};

use crate::catalog::{self, Catalog};
use crate::day::{self, DAY_NS, HOUR_NS, MINUTE_NS};
use crate::manifest::{Manifest, Segment};
use crate::parquet_file::ParquetFile;
use crate::retention::Retention;
use crate::schema::Table;
use crate::segment_writer::{self, Span};
use crate::store::Store;

/// Wait after the end of an hour or day before its roll-up: profiles are sent a minute late.
const GRACE_NS: i64 = 5 * MINUTE_NS;
/// Small segments of one table and day that are merged at a time.
const LEAST_MERGED: usize = 8;
/// Segments of this size stay as they are.
const SMALL_BYTES: u64 = 64 << 20;

/// What a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Segments that were merged into others.
    pub merged: usize,
    /// Hours and days that were rolled up.
    pub rolled_up: usize,
    /// Segments that expired.
    pub expired: usize,
}

/// Does what is due at `now_ns`.
pub fn run(store: &Store, manifest: &mut Manifest, retention: &Retention, now_ns: i64) -> Outcome<Work> {
    let mut next = Draft { store, retention, now_ns, label: manifest.label(), next: manifest.clone() };
    let work = Work {
        expired: next.expire(),
        rolled_up: next.roll_up_hours()? + next.roll_up_days()?,
        merged: next.merge()?,
    };
    let changed = next.next;
    if work == Work::default() && changed.stale_hours == manifest.stale_hours {
        return Ok(work);
    }
    let kept: BTreeSet<&str> = changed.segments.iter().map(|segment| segment.name.as_str()).collect();
    let replaced: Vec<String> = manifest
        .segments
        .iter()
        .filter(|segment| !kept.contains(segment.name.as_str()))
        .map(|segment| segment.name.clone())
        .collect();
    let mut changed = changed;
    changed.save(store)?;
    *manifest = changed;
    replaced.iter().try_for_each(|name| store.delete(name))?;
    Ok(work)
}

/// The next manifest in the making.
struct Draft<'a> {
    store: &'a Store,
    retention: &'a Retention,
    now_ns: i64,
    /// Makes the names of new segments unique.
    label: String,
    next: Manifest,
}

impl Draft<'_> {
    fn expire(&mut self) -> usize {
        let (retention, now_ns) = (self.retention, self.now_ns);
        let before = self.next.segments.len();
        self.next.segments.retain(|segment| {
            let from_ns = match segment.table {
                Table::Samples => retention.minutes_from(now_ns),
                Table::Profiles | Table::SamplesHour => retention.hours_from(now_ns),
                Table::SamplesDay => retention.days_from(now_ns),
                Table::Functions | Table::Stacks | Table::Frames => i64::MIN,
            };
            segment.end_ns > from_ns
        });
        before - self.next.segments.len()
    }

    fn roll_up_hours(&mut self) -> Outcome<usize> {
        let due = due(&self.next.stale_hours, HOUR_NS, self.now_ns);
        for hour_ns in &due {
            let segments = self.next.within(Table::Samples, *hour_ns, hour_ns + HOUR_NS);
            self.replace(Table::Samples, segments, Table::SamplesHour, *hour_ns, HOUR_NS)?;
            self.next.stale_hours.remove(hour_ns);
            self.next.stale_days.insert(day::floor(*hour_ns, DAY_NS));
        }
        Ok(due.len())
    }

    fn roll_up_days(&mut self) -> Outcome<usize> {
        let due = due(&self.next.stale_days, DAY_NS, self.now_ns);
        for day_ns in &due {
            let segments = self.next.within(Table::SamplesHour, *day_ns, day_ns + DAY_NS);
            self.replace(Table::SamplesHour, segments, Table::SamplesDay, *day_ns, DAY_NS)?;
            self.next.stale_days.remove(day_ns);
        }
        Ok(due.len())
    }

    /// Replaces the roll-up of a time by one of `segments`. A time whose samples have expired keeps
    /// the roll-up it has.
    fn replace(
        &mut self,
        from: Table,
        segments: Vec<Segment>,
        to: Table,
        start_ns: i64,
        step_ns: i64,
    ) -> Outcome {
        if segments.is_empty() {
            return Ok(());
        }
        let span = Span { start_ns, end_ns: start_ns + step_ns };
        let sql = roll_up_sql(from, span, to);
        let label = format!("{:02}-{}", start_ns.rem_euclid(DAY_NS) / HOUR_NS, self.label);
        let made = write(self.store, &[(from, segments)], &sql, to, span, &label)?;
        let is_same = |segment: &Segment| {
            segment.table == to && segment.start_ns == span.start_ns && segment.end_ns == span.end_ns
        };
        self.next.segments.retain(|segment| !is_same(segment));
        self.next.segments.extend(made);
        Ok(())
    }

    fn merge(&mut self) -> Outcome<usize> {
        let mut groups: BTreeMap<(Table, i64, i64), Vec<Segment>> = BTreeMap::new();
        for segment in self.next.segments.iter().filter(|segment| segment.bytes < SMALL_BYTES) {
            let key = (segment.table, segment.start_ns, segment.end_ns);
            groups.entry(key).or_default().push(segment.clone());
        }
        let mut merged = 0;
        for ((table, start_ns, end_ns), segments) in groups {
            if segments.len() < LEAST_MERGED {
                continue;
            }
            let sql = format!("SELECT * FROM {} ORDER BY {}", table.name(), table.order().join(", "));
            let label = format!("merged-{}", self.label);
            let tables = [(table, segments)];
            let made = write(self.store, &tables, &sql, table, Span { start_ns, end_ns }, &label)?;
            let [(_, segments)] = tables;
            merged += segments.len();
            self.next.segments.retain(|segment| !segments.contains(segment));
            self.next.segments.extend(made);
        }
        Ok(merged)
    }
}

/// The starts of stale times that are over.
fn due(stale: &BTreeSet<i64>, step_ns: i64, now_ns: i64) -> Vec<i64> {
    stale.iter().copied().filter(|start_ns| start_ns + step_ns + GRACE_NS <= now_ns).collect()
}

/// Means are over the profiles that have the stack. A day weighs its hours by their profiles.
fn roll_up_sql(from: Table, span: Span, to: Table) -> String {
    let (points, mean) = match from {
        Table::Samples => ("count(*)", "CAST(sum({}) AS DOUBLE) / count(*)"),
        _ => ("sum(points)", "sum({} * points) / sum(points)"),
    };
    let (least, most) = match from {
        Table::Samples => ("min(inuse_bytes)", "max(inuse_bytes)"),
        _ => ("min(least_bytes)", "max(most_bytes)"),
    };
    let mean = |column: &str| mean.replace("{}", column);
    let Span { start_ns, end_ns } = span;
    format!(
        "SELECT CAST({start_ns} AS BIGINT) AS time_ns, service, release, host, process_id, stack_id, \
         {points} AS points, {} AS inuse_bytes, {} AS inuse_objects, {least} AS least_bytes, \
         {most} AS most_bytes FROM {} WHERE time_ns >= {start_ns} AND time_ns < {end_ns} \
         GROUP BY service, release, host, process_id, stack_id ORDER BY {}",
        mean("inuse_bytes"),
        mean("inuse_objects"),
        from.name(),
        to.order().join(", "),
    )
}

/// Writes the rows of a query as a segment; `None` without rows.
fn write(
    store: &Store,
    tables: &[(Table, Vec<Segment>)],
    sql: &str,
    to: Table,
    span: Span,
    label: &str,
) -> Outcome<Option<Segment>> {
    let mut stream = Catalog::of_segments(store, tables)?.stream(sql)?;
    let mut file = ParquetFile::new(to)?;
    while let Some(batch) = store.wait(stream.next()) {
        let batch = batch.map_err(catalog::failure)?;
        // The query cannot know that no value is null.
        let batch = RecordBatch::try_new(to.schema(), batch.columns().to_vec());
        file.write(&batch.map_err(|why| Failure::new(format!("rows of {}: {why}", to.name())))?)?;
    }
    if file.rows() == 0 {
        return Ok(None);
    }
    segment_writer::put_file(store, to, span, label, file).map(Some)
}
