//! Recordings: from the probe's events to a file, and from a file to a [`crate::Profile`] at any instant.
//!
//! ```text
//! record   chunks → merge (one order) → ledger (counts of each site, entries) → frames
//! read     frames → archive → replay (counts at an instant) → Profile
//!                          → timeline, analysis (temporaries, lifetimes, growth, …)
//! ```
//!
//! Sans-IO in both directions: the recorder hands in bytes of chunks and takes frames to pack and
//! write; the reader supplies [`RecordingSource`], a positioned read and an unpacker.

pub mod analysis;
mod archive;
mod catalog;
mod counts;
mod ledger;
mod merge;
pub mod names;
mod replay;
mod share;
pub mod statistics;
mod timeline;

pub use archive::{Damage, DamageKind, OpenError, Recording, RecordingSource};
pub use catalog::{Catalog, MarkAt};
pub use counts::{Count, Counts};
pub use ledger::{Ledger, RawFrame, Totals};
pub use merge::{Merger, Piece};
pub use replay::{Moment, Window};
pub use share::Watcher;
pub use statistics::Statistics;
pub use timeline::{Step, Timeline};
