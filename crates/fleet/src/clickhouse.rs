//! Statements that load the store into ClickHouse, with the same tables and columns.

use std::fmt::Write;

use datafusion::arrow::datatypes::{DataType, Field};

use crate::manifest::Manifest;
use crate::schema::Table;
use crate::store::Store;

/// Columns with few distinct texts.
const REPEATED: [&str; 8] = ["service", "release", "host", "container", "program", "end", "file", "module"];

/// `CREATE TABLE` for every table, and one `INSERT` per segment. ClickHouse reads files below its
/// `user_files_path` only; `clickhouse local` and chDB read any file.
#[must_use]
pub fn statements(store: &Store, manifest: &Manifest) -> String {
    let mut text = String::new();
    for table in Table::ALL {
        let schema = table.schema();
        let columns: Vec<String> = schema.fields().iter().map(|field| column(field)).collect();
        let _ = writeln!(
            text,
            "CREATE TABLE IF NOT EXISTS {} ({}) ENGINE = MergeTree ORDER BY ({});",
            table.name(),
            columns.join(", "),
            table.order().join(", ")
        );
        for segment in manifest.of(table) {
            let (function, place) = match store.web_address(&segment.name) {
                Some(address) => ("s3", address),
                None => ("file", store.place(&segment.name)),
            };
            let place = place.replace('\\', "\\\\").replace('\'', "\\'");
            let name = table.name();
            let _ = writeln!(text, "INSERT INTO {name} SELECT * FROM {function}('{place}', 'Parquet');");
        }
    }
    text
}

fn column(field: &Field) -> String {
    let name = field.name();
    let kind = match field.data_type() {
        DataType::UInt64 => "UInt64",
        DataType::Int64 => "Int64",
        DataType::UInt32 => "UInt32",
        DataType::UInt16 => "UInt16",
        DataType::Float64 => "Float64",
        DataType::Boolean => "Bool",
        _ if REPEATED.contains(&name.as_str()) => "LowCardinality(String)",
        _ => "String",
    };
    format!("`{name}` {kind}")
}
