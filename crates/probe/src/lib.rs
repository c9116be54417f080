//! libheapwise.so: the guest inside the profiled program.
//!
//! It never allocates from the program's heap, takes no lock the program may hold, never blocks,
//! never panics and prints nothing it was not asked for. Whatever does not work is dropped and counted in the segment.
#![cfg_attr(not(test), no_std)]

mod allocator;
pub mod api;
mod arch;
mod arena;
mod atomics;
mod clock;
mod config;
mod control;
mod declared_frames;
mod environment;
mod family;
mod fixed_text;
mod hooks;
#[cfg(test)]
mod interleavings;
pub mod jemalloc;
mod live;
mod log;
#[cfg(all(test, loom))]
mod models;
mod modules;
mod process;
mod record;
mod segment;
mod sites;
mod start;
mod symbols;
mod sys;
mod threads;
mod unwind;
pub mod workbench;

pub use jemalloc::mallctl;
pub(crate) use jemalloc::{dump, json, prof, recent};

/// Nothing in the probe panics; if something does, the program's own crash handling sees the abort.
#[cfg(all(feature = "preload", not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::abort()
}
