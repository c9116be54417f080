//! Segments as Parquet files: delta-encoded numbers, dictionaries of texts, zstd.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, Encoding, ZstdLevel};
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::schema::types::ColumnPath;
use heapwise_capture::failure::{Failure, Outcome};

use crate::schema::Table;

/// Rows of a row group: the unit that readers skip by its statistics.
const ROW_GROUP_ROWS: usize = 1 << 18;
/// Level of zstd. Higher levels gain 3 % and take several times as long.
const ZSTD_LEVEL: i32 = 3;

/// A file in the making.
#[derive(Debug)]
pub struct ParquetFile {
    writer: ArrowWriter<Vec<u8>>,
    rows: u64,
}

impl ParquetFile {
    /// An empty file of a table.
    pub fn new(table: Table) -> Outcome<Self> {
        let writer = ArrowWriter::try_new(Vec::new(), table.schema(), Some(properties(table)?));
        Ok(Self { writer: writer.map_err(failure)?, rows: 0 })
    }

    /// Adds rows.
    pub fn write(&mut self, batch: &RecordBatch) -> Outcome {
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(failure)
    }

    /// Number of rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The bytes of the finished file.
    pub fn finish(self) -> Outcome<Vec<u8>> {
        self.writer.into_inner().map_err(failure)
    }
}

fn properties(table: Table) -> Outcome<WriterProperties> {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(failure)?;
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    for field in table.schema().fields() {
        if is_number(field.data_type()) {
            let column = ColumnPath::from(field.name().as_str());
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

fn is_number(kind: &DataType) -> bool {
    matches!(kind, DataType::UInt64 | DataType::Int64 | DataType::UInt32 | DataType::UInt16)
}

fn failure(why: ParquetError) -> Failure {
    Failure::new(format!("cannot write a Parquet file: {why}"))
}
