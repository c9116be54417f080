//! libheapwise.so: the guest inside the profiled program.
//!
//! It never allocates from the program's heap, takes no lock the program may hold, never blocks,
//! never panics and prints nothing unasked. Failed operations are dropped and counted in the
//! segment.
//!
//! Rooms, in the order of an event: `entry` → `record` → `unwind` → `sites` → `live` → `log`;
//! beside them `runtimes`, `shared` (the segment), `jemalloc`, `os`, `testing`. Each room's
//! `mod.rs` says what lives there, what it may use and its invariant.
#![cfg_attr(not(test), no_std)]

pub mod entry;
pub mod jemalloc;
mod live;
mod log;
mod os;
mod record;
mod runtimes;
mod shared;
mod sites;
pub mod testing;
mod unwind;

// Modules are addressed by their own names; the rooms group their files.
pub use entry::api;
pub(crate) use entry::{
    allocator, arch, arena, declared_frames, hooks, injected, inside, session, start, threads,
};
pub use jemalloc::mallctl;
pub(crate) use jemalloc::{dump, json, prof, recent};
pub(crate) use os::{atomics, clock, environment, fixed_text, process, symbols, sys};
pub(crate) use shared::{config, control, leases, segment};
pub use testing::test_api;
pub(crate) use unwind::modules;

/// Nothing in the probe panics; if something does, the program's own crash handling sees the abort.
#[cfg(all(feature = "preload", not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::abort()
}
