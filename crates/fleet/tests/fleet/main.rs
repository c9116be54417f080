//! The executable and its store, from batches to answers.

#[cfg(feature = "ballista")]
mod cluster;
mod crash;
mod harness;
mod page;
mod questions;
mod s3;
mod server;
mod witness;
