//! The tables of a store as DataFusion sees them.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::prelude::{SessionConfig, SessionContext};
use heapwise_capture::failure::{Failure, Outcome};

use crate::manifest::{Manifest, Segment};
use crate::schema::Table;
use crate::store::Store;

/// Memory that a query may take before it writes parts of its state to a disk.
pub const QUERY_MEMORY_BYTES: usize = 4 << 30;

/// Tables that can be queried.
pub struct Catalog {
    store: Store,
    context: SessionContext,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Catalog({:?})", self.store)
    }
}

impl Catalog {
    /// All segments of a manifest, queried in this process.
    pub fn new(store: &Store, manifest: &Manifest) -> Outcome<Self> {
        Self::of_segments(store, &all_segments(manifest))
    }

    /// Some segments, queried in this process.
    pub fn of_segments(store: &Store, tables: &[(Table, Vec<Segment>)]) -> Outcome<Self> {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(QUERY_MEMORY_BYTES, 1.0).build_arc();
        let context = SessionContext::new_with_config_rt(SessionConfig::new(), runtime.map_err(failure)?);
        Self::with_context(store, context, tables)
    }

    /// Some segments in a context of the caller's.
    pub fn with_context(
        store: &Store,
        context: SessionContext,
        tables: &[(Table, Vec<Segment>)],
    ) -> Outcome<Self> {
        let (url, objects) = store.objects();
        context.register_object_store(url.as_ref(), objects);
        for (table, segments) in tables {
            context.register_table(table.name(), provider(store, *table, segments)?).map_err(failure)?;
        }
        Ok(Self { store: store.clone(), context })
    }

    /// The rows that a query selects. It may read the tables and nothing else.
    pub fn rows(&self, sql: &str) -> Outcome<Vec<RecordBatch>> {
        let rows = async { self.select(sql).await?.collect().await };
        self.store.wait(rows).map_err(failure)
    }

    /// The rows that a query selects, one after the other.
    pub fn stream(&self, sql: &str) -> Outcome<SendableRecordBatchStream> {
        let stream = async { self.select(sql).await?.execute_stream().await };
        self.store.wait(stream).map_err(failure)
    }

    async fn select(&self, sql: &str) -> Result<datafusion::dataframe::DataFrame, DataFusionError> {
        let only_reads =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        self.context.sql_with_options(sql, only_reads).await
    }
}

/// The segments of all tables.
pub(crate) fn all_segments(manifest: &Manifest) -> [(Table, Vec<Segment>); Table::ALL.len()] {
    Table::ALL.map(|table| (table, manifest.of(table).cloned().collect()))
}

fn provider(store: &Store, table: Table, segments: &[Segment]) -> Outcome<Arc<dyn TableProvider>> {
    if segments.is_empty() {
        return Ok(Arc::new(EmptyTable::new(table.schema())));
    }
    let url = |segment: &Segment| ListingTableUrl::parse(store.address(&segment.name));
    let urls = segments.iter().map(url).collect::<Result<Vec<_>, _>>().map_err(failure)?;
    let format = Arc::new(ParquetFormat::default());
    let options = ListingOptions::new(format).with_file_extension(".parquet");
    let config = ListingTableConfig::new_with_multi_paths(urls)
        .with_listing_options(options)
        .with_schema(table.schema());
    Ok(Arc::new(ListingTable::try_new(config).map_err(failure)?))
}

/// A failure of DataFusion in words.
pub(crate) fn failure(why: DataFusionError) -> Failure {
    Failure::new(format!("query: {}", why.strip_backtrace()))
}
