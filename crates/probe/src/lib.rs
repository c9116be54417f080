//! libheapwise.so: the guest inside the profiled program.
//!
//! It never allocates from the program's heap, takes no lock the program may hold, never blocks,
//! never panics and prints nothing. Whatever does not work is dropped and counted in the segment.
#![cfg_attr(not(test), no_std)]

mod arch;
mod clock;
mod environment;
mod fixed_text;
mod log;
mod modules;
mod process;
mod segment;
mod stack_tree;
mod start;
mod sys;
mod unwind;
pub mod workbench;

/// Nothing in the probe panics; if something does, the program's own crash handling sees the abort.
#[cfg(all(feature = "preload", not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::abort()
}
