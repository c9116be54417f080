//! Recordings: from the probe's events to a file, and from a file to a [`crate::Profile`] at any
//! point in time.
//!
//! ```text
//! record   chunks → merge (one order) → event_accounting (counts of each site, entries) → frames
//! read     frames → reader → replay (counts at a point) → Profile
//!                         → timeline, analysis (temporaries, lifetimes, growth, …)
//! ```
//!
//! Sans-IO in both directions: the recorder passes bytes of chunks and takes frames to pack and
//! write; the reader supplies [`RecordingSource`], a positioned read and an unpacker.

pub mod analysis;
mod counts;
mod event_accounting;
mod merge;
pub mod names;
mod parallel_read;
mod reader;
mod replay;
mod size_counts;
pub mod statistics;
mod tables;
mod timeline;
mod version3;

pub use counts::{Count, Counts};
pub use event_accounting::{EventAccounting, RawFrame, Totals};
pub use merge::{Merger, Piece, Until};
pub use parallel_read::Progress;
pub use reader::{Damage, DamageKind, OpenError, Recording, RecordingSource};
pub use replay::{Point, PointInTime, TimeRange};
pub use size_counts::SizeCounts;
pub use statistics::Statistics;
pub use tables::{MarkAt, Tables};
pub use timeline::{Step, Timeline};
