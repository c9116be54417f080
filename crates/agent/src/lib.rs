//! `heapwise agent`: profiles of every process of a host, kept in a spool and sent to receivers.
//!
//! ```text
//! segments → followed → agent (rounds) → batch → spool → delivery → receiver → request
//! ```
//!
//! Reading order: [`batch`] (entries as the spool and the server have them), [`followed`] (one
//! process), [`agent`], [`spool`], [`delivery`], [`receiver`], [`request`].

pub mod agent;
pub mod batch;
pub mod budget;
mod cgroup;
pub mod cost;
pub mod delivery;
mod delta;
mod exit_status;
mod followed;
mod free_memory;
mod grpc;
pub mod identity;
mod listener;
mod metrics;
pub mod policy;
pub mod receiver;
pub mod request;
pub mod spool;
pub mod status;
#[cfg(test)]
mod strict;
mod wire;
