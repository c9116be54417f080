//! jemalloc compatibility: users of jemalloc's profiler keep their options, calls and files.
//!
//! Modules:
//! * `options`: the options by jemalloc's names (`config` reads them from where jemalloc looks);
//! * `prof`: the switches of profiling while the program runs;
//! * `mallctl`: the exported functions `mallctl`, `mallctlnametomib`, `mallctlbymib` and
//!   `malloc_stats_print`;
//! * `block_sizes`: the exported functions `nallocx` and `sallocx`;
//! * `dump`: heap dumps in jemalloc's text, by call, by interval, at peaks and at exit, and leak
//!   reports;
//! * `recent`: the last recorded blocks one by one, and the log of freed ones;
//! * `json`: the JSON writer of `mallctl` and `recent`.
//!
//! Allowed dependencies: the recorded data (segment, tables, stack tree, thread names) for reading,
//! and `control` to change what is recorded. The recorder calls in at three places only:
//! `dump::notice` when sums have grown, `recent::{allocated, freed}` per recorded block,
//! `prof::is_silent` per event; each is one load while the feature is unused.
//!
//! Invariant: this module changes neither what is recorded nor how, unless an option or a call
//! requests it. Without jemalloc options this module has no effect on a program.

pub mod block_sizes;
pub(crate) mod dump;
pub(crate) mod json;
pub mod mallctl;
pub(crate) mod options;
pub(crate) mod prof;
pub(crate) mod recent;
