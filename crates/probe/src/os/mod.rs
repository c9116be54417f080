//! The edge to the system: system calls, the loader's symbols, clocks, the environment, atomics.
//!
//! Allowed dependencies: none in the probe except counters of the segment.
//!
//! *Invariant*: no function here calls the C library's allocator or changes errno.

pub(crate) mod atomics;
pub(crate) mod clock;
pub(crate) mod environment;
pub(crate) mod fixed_text;
pub(crate) mod process;
pub(crate) mod symbols;
pub(crate) mod sys;
