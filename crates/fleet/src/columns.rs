//! From rows to columns.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt16Array, UInt32Array,
    UInt64Array,
};
use heapwise_capture::failure::{Failure, Outcome};

use crate::rows::{Amounts, FrameRow, FunctionRow, Origin, ProfileRow, SampleRow, StackRow};
use crate::schema::Table;

/// The columns of `functions`.
pub fn functions(rows: &[&FunctionRow]) -> Outcome<RecordBatch> {
    let columns = vec![
        u64s(rows.iter().map(|row| row.fn_id)),
        texts(rows.iter().map(|row| row.name.as_str())),
        texts(rows.iter().map(|row| row.full_name.as_str())),
        texts(rows.iter().map(|row| row.system_name.as_str())),
        texts(rows.iter().map(|row| row.file.as_str())),
        u32s(rows.iter().map(|row| row.start_line)),
        texts(rows.iter().map(|row| row.module.as_str())),
    ];
    batch(Table::Functions, columns)
}

/// The columns of `stacks`.
pub fn stacks(rows: &[&StackRow]) -> Outcome<RecordBatch> {
    let columns = vec![
        u64s(rows.iter().map(|row| row.stack_id)),
        u16s(rows.iter().map(|row| row.depth)),
        u64s(rows.iter().map(|row| row.leaf_fn)),
        u64s(rows.iter().map(|row| row.site_id)),
        texts(rows.iter().map(|row| row.site.as_str())),
    ];
    batch(Table::Stacks, columns)
}

/// The columns of `frames`.
pub fn frames(rows: &[&FrameRow]) -> Outcome<RecordBatch> {
    let columns = vec![
        u64s(rows.iter().map(|row| row.stack_id)),
        u16s(rows.iter().map(|row| row.pos)),
        u64s(rows.iter().map(|row| row.fn_id)),
        u32s(rows.iter().map(|row| row.line)),
        flags(rows.iter().map(|row| row.is_inlined)),
        flags(rows.iter().map(|row| row.is_first)),
    ];
    batch(Table::Frames, columns)
}

/// The columns of `profiles`.
pub fn profiles(rows: &[&ProfileRow]) -> Outcome<RecordBatch> {
    let of_origin = |text: fn(&Origin) -> &str| texts(rows.iter().map(|row| text(&row.origin)));
    let amount = |value: fn(&Amounts) -> i64| i64s(rows.iter().map(|row| value(&row.values)));
    let columns = vec![
        u64s(rows.iter().map(|row| row.origin.profile_id)),
        u64s(rows.iter().map(|row| row.origin.process_id)),
        i64s(rows.iter().map(|row| row.origin.time_ns)),
        i64s(rows.iter().map(|row| row.origin.start_ns)),
        of_origin(|origin| &origin.service),
        of_origin(|origin| &origin.release),
        of_origin(|origin| &origin.host),
        of_origin(|origin| &origin.container),
        of_origin(|origin| &origin.program),
        u32s(rows.iter().map(|row| row.origin.pid)),
        of_origin(|origin| &origin.end),
        u64s(rows.iter().map(|row| row.sampling_bytes)),
        u32s(rows.iter().map(|row| row.stacks)),
        amount(|values| values.inuse_bytes),
        amount(|values| values.inuse_objects),
        amount(|values| values.alloc_bytes),
        amount(|values| values.alloc_objects),
        i64s(rows.iter().map(|row| row.peak_bytes)),
    ];
    batch(Table::Profiles, columns)
}

/// The columns of `samples`.
pub fn samples(rows: &[&SampleRow]) -> Outcome<RecordBatch> {
    let of_origin = |text: fn(&Origin) -> &str| texts(rows.iter().map(|row| text(&row.origin)));
    let amount = |value: fn(&Amounts) -> i64| i64s(rows.iter().map(|row| value(&row.values)));
    let columns = vec![
        i64s(rows.iter().map(|row| row.origin.time_ns)),
        of_origin(|origin| &origin.service),
        of_origin(|origin| &origin.release),
        of_origin(|origin| &origin.host),
        u64s(rows.iter().map(|row| row.origin.process_id)),
        u64s(rows.iter().map(|row| row.origin.profile_id)),
        u64s(rows.iter().map(|row| row.stack_id)),
        amount(|values| values.inuse_bytes),
        amount(|values| values.inuse_objects),
        amount(|values| values.alloc_bytes),
        amount(|values| values.alloc_objects),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.inuse_variance))),
    ];
    batch(Table::Samples, columns)
}

fn batch(table: Table, columns: Vec<ArrayRef>) -> Outcome<RecordBatch> {
    RecordBatch::try_new(table.schema(), columns)
        .map_err(|why| Failure::new(format!("rows of {}: {why}", table.name())))
}

fn u64s(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn i64s(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn u32s(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

fn u16s(values: impl Iterator<Item = u16>) -> ArrayRef {
    Arc::new(UInt16Array::from_iter_values(values))
}

fn flags(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(BooleanArray::from(values.collect::<Vec<bool>>()))
}

fn texts<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}
