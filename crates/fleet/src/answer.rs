//! Rows of a query as text or JSON.

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::ArrayWriter;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use heapwise_capture::failure::{Failure, Outcome};
use heapwise_profile::quantity;

use crate::day;

/// How numbers are written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// As they are.
    Plain,
    /// Bytes with units, times as dates: by the names of the columns.
    WithUnits,
}

/// An array of objects, one per row.
pub fn json(rows: &[RecordBatch]) -> Outcome<Vec<u8>> {
    let mut writer = ArrayWriter::new(Vec::new());
    writer.write_batches(&rows.iter().collect::<Vec<_>>()).map_err(failure)?;
    writer.finish().map_err(failure)?;
    let mut text = writer.into_inner();
    if text.is_empty() {
        text.extend(b"[]");
    }
    Ok(text)
}

/// A table with a line of names and a line per row.
pub fn text(rows: &[RecordBatch], numbers: Numbers) -> Outcome<String> {
    let Some(first) = rows.first() else { return Ok(String::new()) };
    let names: Vec<String> = first.schema().fields().iter().map(|field| field.name().clone()).collect();
    let columns: Vec<Vec<String>> = (0..names.len())
        .map(|at| -> Outcome<Vec<String>> {
            let cells = rows.iter().map(|batch| cells(&names[at], batch.column(at), numbers));
            Ok(cells.collect::<Outcome<Vec<_>>>()?.concat())
        })
        .collect::<Outcome<_>>()?;
    let is_number: Vec<bool> = first.columns().iter().map(|column| column.data_type().is_numeric()).collect();
    let width = |at: usize| {
        let cells = columns[at].iter().chain([&names[at]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |cell: &dyn Fn(usize) -> String| -> String {
        let padded = (0..names.len()).map(|at| match is_number[at] {
            true => format!("{:>width$}", cell(at), width = widths[at]),
            false => format!("{:<width$}", cell(at), width = widths[at]),
        });
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let count = columns.first().map_or(0, Vec::len);
    let mut out = line(&|at| names[at].clone());
    (0..count).for_each(|row| out += &line(&|at| columns[at][row].clone()));
    Ok(out)
}

fn cells(name: &str, column: &dyn Array, numbers: Numbers) -> Outcome<Vec<String>> {
    if numbers == Numbers::WithUnits && name.ends_with("time_ns") && *column.data_type() == DataType::Int64 {
        let times = column.as_primitive::<Int64Type>();
        return Ok(times.values().iter().map(|time_ns| day::timestamp(*time_ns)).collect());
    }
    if numbers == Numbers::WithUnits && column.data_type().is_numeric() {
        let values = cast(column, &DataType::Float64).map_err(failure)?;
        let is_bytes = name.ends_with("_bytes") || name == "score" || name == "bytes_per_hour";
        let is_fraction = column.data_type().is_floating();
        let cell = |value: f64| match () {
            () if is_bytes => quantity::bytes(value),
            () if is_fraction && value.fract() != 0.0 => format!("{value:.2}"),
            () => format!("{value:.0}"),
        };
        return Ok(values.as_primitive::<Float64Type>().values().iter().map(|value| cell(*value)).collect());
    }
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column, &options).map_err(failure)?;
    Ok((0..column.len()).map(|row| formatter.value(row).to_string()).collect())
}

fn failure(why: ArrowError) -> Failure {
    Failure::new(format!("cannot write the answer: {why}"))
}
