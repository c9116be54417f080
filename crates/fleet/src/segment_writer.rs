//! From rows to segments in the store.

use std::collections::BTreeMap;

use datafusion::arrow::array::RecordBatch;
use heapwise_capture::failure::Outcome;

use crate::columns;
use crate::day::{self, DAY_NS};
use crate::manifest::Segment;
use crate::parquet_file::ParquetFile;
use crate::rows::{ProfileRow, Rows, SampleRow};
use crate::schema::Table;
use crate::store::Store;

/// Writes the rows of a flush: one segment per table, and per day for tables with times. `label`
/// makes the names unique.
pub fn write(store: &Store, rows: &Rows, label: &str) -> Outcome<Vec<Segment>> {
    let mut segments = Vec::new();
    let mut put = |table: Table, day_ns: i64, batch: RecordBatch| -> Outcome {
        let mut file = ParquetFile::new(table)?;
        file.write(&batch)?;
        segments.push(put_file(store, table, Span::of_day(table, day_ns), label, file)?);
        Ok(())
    };
    if !rows.functions.is_empty() {
        put(
            Table::Functions,
            0,
            columns::functions(&sorted(&rows.functions, |row| (&row.name, row.fn_id)))?,
        )?;
    }
    if !rows.stacks.is_empty() {
        put(Table::Stacks, 0, columns::stacks(&sorted(&rows.stacks, |row| row.stack_id))?)?;
    }
    if !rows.frames.is_empty() {
        put(Table::Frames, 0, columns::frames(&sorted(&rows.frames, |row| (row.stack_id, row.pos)))?)?;
    }
    for (day_ns, rows) in by_day(&rows.profiles, |row: &ProfileRow| row.origin.time_ns) {
        let order = |row: &&ProfileRow| {
            let origin = row.origin.clone();
            (origin.service.clone(), origin.host.clone(), origin.process_id, origin.time_ns)
        };
        let mut rows = rows;
        rows.sort_by_cached_key(order);
        put(Table::Profiles, day_ns, columns::profiles(&rows)?)?;
    }
    for (day_ns, mut rows) in by_day(&rows.samples, |row: &SampleRow| row.origin.time_ns) {
        rows.sort_by(|one, two| {
            let key = |row: &SampleRow| (row.stack_id, row.origin.process_id, row.origin.time_ns);
            let (first, second) = (&one.origin, &two.origin);
            first
                .service
                .cmp(&second.service)
                .then(one.stack_id.cmp(&two.stack_id))
                .then_with(|| first.host.cmp(&second.host))
                .then_with(|| key(one).cmp(&key(two)))
        });
        put(Table::Samples, day_ns, columns::samples(&rows)?)?;
    }
    Ok(segments)
}

/// The time that all rows of a segment lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First nanosecond.
    pub start_ns: i64,
    /// First nanosecond after it.
    pub end_ns: i64,
}

impl Span {
    /// The day of a table with times; all time otherwise.
    #[must_use]
    pub fn of_day(table: Table, day_ns: i64) -> Self {
        match table.is_timed() {
            true => Self { start_ns: day_ns, end_ns: day_ns + DAY_NS },
            false => Self { start_ns: 0, end_ns: i64::MAX },
        }
    }
}

/// Puts a finished file into the store.
pub fn put_file(store: &Store, table: Table, span: Span, label: &str, file: ParquetFile) -> Outcome<Segment> {
    let name = match table.is_timed() {
        true => format!("{}/{}/{label}.parquet", table.name(), day::date(span.start_ns)),
        false => format!("{}/{label}.parquet", table.name()),
    };
    let rows = file.rows();
    let contents = file.finish()?;
    let bytes = contents.len() as u64;
    store.put(&name, contents)?;
    Ok(Segment { table, name, start_ns: span.start_ns, end_ns: span.end_ns, rows, bytes })
}

fn sorted<'a, T, K: Ord>(rows: &'a [T], key: impl Fn(&'a T) -> K) -> Vec<&'a T> {
    let mut rows: Vec<&T> = rows.iter().collect();
    rows.sort_by_key(|&row| key(row));
    rows
}

fn by_day<T>(rows: &[T], time_ns: impl Fn(&T) -> i64) -> BTreeMap<i64, Vec<&T>> {
    let mut days: BTreeMap<i64, Vec<&T>> = BTreeMap::new();
    for row in rows {
        days.entry(day::floor(time_ns(row), DAY_NS)).or_default().push(row);
    }
    days
}
