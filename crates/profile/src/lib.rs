//! The model of a heap profile and everything derived from it, without IO, clocks or `unsafe`.
//!
//! Whatever comes in (live segment, recording, a file of another tool) becomes one [`Profile`];
//! whatever goes out is a view of it. Reading order: [`id`] and [`metric`], then [`model`].
#![forbid(unsafe_code)]

pub mod estimate;
pub mod id;
pub mod metric;
pub mod model;
pub mod snapshot;

pub use id::{FunctionId, LocationId, ModuleId, StackId, ThreadId};
pub use metric::{Metric, Values};
pub use model::{
    BuildId, Function, Line, Location, Losses, Meta, Module, Profile, Sample, Sampling, StackTable, Thread,
};
