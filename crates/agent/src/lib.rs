//! `heapwise agent`: profiles of every process of a host, kept in a spool and sent to receivers.
//!
//! Reading order: [`batch`] (entries as the spool and the server have them).

pub mod batch;
