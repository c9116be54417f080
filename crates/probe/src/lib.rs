//! libheapwise.so: the guest inside the profiled program.
//!
//! It never allocates from the program's heap, takes no lock the program may hold, never blocks,
//! never panics and prints nothing it was not asked for. Whatever does not work is dropped and counted in the segment.
#![cfg_attr(not(test), no_std)]

mod address_map;
mod allocator;
pub mod api;
mod arch;
mod arena;
mod atomics;
mod buckets;
mod chain;
mod clock;
mod config;
mod control;
mod environment;
mod exponential;
mod family;
mod filter;
mod fixed_text;
mod hooks;
mod index;
#[cfg(test)]
mod interleavings;
pub mod jemalloc;
mod live;
mod log;
#[cfg(all(test, loom))]
mod models;
mod modules;
mod process;
mod rates;
mod recorder;
mod sampler;
mod script;
mod segment;
mod shadow;
mod stack_tree;
mod start;
mod strings;
mod symbols;
mod sys;
mod tallies;
mod thread;
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
