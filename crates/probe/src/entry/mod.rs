//! Where the program enters the probe: hooks of the allocator's functions, the exported API, start,
//! fork.
//!
//! Modules:
//! * `hooks` and `arch`: the hook table, the stubs of each instruction set, the wrappers of the
//!   longer calls;
//! * `allocator` and `arena`: what is known of the allocator underneath, and blocks from before it
//!   works;
//! * `api` and `declared_frames`: what `heapwise.h` declares, labels and script frames among it;
//! * `inside`, `session` and `threads`: the entrance, and the state of the process and of each
//!   thread behind it;
//! * `start` and `fork`: the first hooked call of a process, and of a forked child;
//! * `injected` and `hook_request`: a probe that a controller brought into a running process, and
//!   one that requests entry hooks from its launcher.
//!
//! Allowed dependencies: `record` for events, `shared` for control, `os`; `session` has the parts
//! of all rooms.
//!
//! *Invariant*: a hook calls the function that the program would have called, with the same
//! arguments, and returns its result. Errno is unchanged. No other room reaches the session but
//! through `inside`.

pub(crate) mod allocator;
pub mod api;
pub(crate) mod arch;
pub(crate) mod arena;
pub(crate) mod declared_frames;
pub(crate) mod fork;
pub(crate) mod hook_request;
pub(crate) mod hooks;
pub(crate) mod injected;
pub(crate) mod inside;
pub(crate) mod session;
pub(crate) mod start;
pub(crate) mod threads;
