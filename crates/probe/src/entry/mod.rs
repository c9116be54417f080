//! Where the program enters the probe: hooks of the allocator's functions, the exported API, start,
//! fork.
//!
//! Modules:
//! * `hooks` and `arch`: the hook table, the stubs of each instruction set, the wrappers of the
//!   longer calls;
//! * `allocator` and `arena`: what is known of the allocator underneath, and blocks from before it
//!   works;
//! * `api` and `declared_frames`: what `heapwise.h` declares, labels and script frames among it;
//! * `start` and `fork`: the first hooked call of a process, and of a forked child.
//!
//! Allowed dependencies: `record` for events, `shared` for control, `os`.
//!
//! *Invariant*: a hook calls the function that the program would have called, with the same
//! arguments, and returns its result. Errno is unchanged.

pub(crate) mod allocator;
pub mod api;
pub(crate) mod arch;
pub(crate) mod arena;
pub(crate) mod declared_frames;
pub(crate) mod fork;
pub(crate) mod hooks;
pub(crate) mod start;
