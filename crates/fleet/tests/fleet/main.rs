//! The executable and its store, from batches to answers.

mod crash;
mod harness;
mod questions;
mod server;
mod witness;
