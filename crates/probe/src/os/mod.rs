//! The edge to the system: system calls, the loader's symbols, clocks, the environment, atomics.
//!
//! Allowed dependencies: none in the probe, except `arch` for the instruction of a system call.
//!
//! *Invariant*: no function here calls the C library's allocator or changes errno.

pub(crate) mod atomics;
pub(crate) mod clock;
pub(crate) mod environment;
pub(crate) mod fixed_text;
pub(crate) mod process;
pub(crate) mod slots;
pub(crate) mod symbols;
pub(crate) mod sys;
