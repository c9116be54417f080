//! Data shared with other processes: the segment, and the control words in it.
//!
//! Modules: `segment` (creation, pages, records), `control` (requested and applied settings),
//! `leases` (what controllers want to be recorded), `config` (settings at process start).
//!
//! Allowed dependencies: `os`. `control` also switches the rooms that a setting concerns.
//!
//! *Invariant*: every index and count from the segment is checked or private, and a page is
//! populated before it is touched: another process may write anything there, or truncate the file.

pub(crate) mod config;
pub(crate) mod control;
pub(crate) mod leases;
pub(crate) mod segment;
