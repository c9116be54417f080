//! `heapwise-fleet`: profiles of many processes on many hosts, and questions about them.
//!
//! ```text
//! agents → http → ingest → log (synced, then acknowledged)
//!                    ↓ flush
//!          star → rows → columns → Parquet segments → manifest ← compaction, retention
//!                                       ↓
//!             catalog (DataFusion, Ballista) → questions, SQL, drill-down → text, JSON, profile
//! ```
//!
//! Reading order: [`schema`], [`star`], [`ingest`], [`manifest`], [`compaction`], [`catalog`],
//! [`questions`].
#![forbid(unsafe_code)]

pub mod answer;
pub mod asked;
pub mod catalog;
pub mod clickhouse;
#[cfg(feature = "ballista")]
pub mod cluster;
pub mod columns;
pub mod compaction;
pub mod content_hash;
pub mod day;
pub mod drill_down;
pub mod engine;
pub mod generate;
pub mod ingest;
pub mod log_file;
pub mod manifest;
pub mod parquet_file;
pub mod questions;
pub mod retention;
pub mod rows;
pub mod schema;
#[cfg(test)]
mod scratch;
pub mod segment_writer;
pub mod server;
pub mod star;
pub mod store;
