//! The model of a heap profile and everything derived from it, without IO, clocks or `unsafe`.
//!
//! Every input (live segment, recording, a file of another tool) becomes one [`Profile`]; every
//! output is a view of it. Reading order: [`id`] and [`metric`], then [`model`]; a [`Query`] makes
//! a [`CallTree`] of it, and every [`view`] is a sum over that tree.
#![forbid(unsafe_code)]

pub mod allocator;
pub mod annotation;
pub mod bounds;
pub mod builder;
pub mod calendar;
pub mod call_tree;
mod child_table;
pub mod compact;
pub mod coverage;
pub mod diff;
pub mod dump_name;
pub mod finding;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod frame_table;
pub mod id;
pub mod inherited;
pub mod ledger;
pub mod merge;
pub mod metric;
pub mod model;
pub mod name;
pub mod naming;
pub mod own_code;
pub mod pprof_proto;
pub mod printable;
pub mod proc_maps;
pub mod quantity;
pub mod query;
pub mod read;
pub mod recording;
pub mod script;
pub mod snapshot;
pub mod suppression;
pub mod unattributed;
pub mod usable;
pub mod view;
mod weigh;
pub mod weight;

pub use call_tree::CallTree;
pub use frame_table::{Frame, FrameId};
pub use id::{FunctionId, LocationId, ModuleId, StackId, ThreadId};
pub use merge::merge;
pub use metric::{Metric, Values};
pub use model::{
    Began, BuildId, Cut, CutReason, CutShare, Function, Inherited, Line, Location, Losses, Meta, Module,
    Profile, ProgramEnd, Recorded, Sample, Sampling, Shortage, Shortages, SizeBin, SizeHistogram, SizeRange,
    StackTable, Thread,
};
pub use query::Query;
pub use read::{ReadError, read};
pub use suppression::Suppressions;
pub use weight::Weight;
