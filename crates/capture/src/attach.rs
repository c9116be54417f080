//! Entry hooks in a process: the code of a process is changed by ptrace and `/proc/PID/mem`, by a
//! plan of the crate `hooks`. docs/ATTACH.md is for users.
//!
//! Reading order: `ptrace` (the system call), `memory`, `probe_image` (the probe in the process),
//! `install` (islands, cells, patches), `start` (hooks before a program's first instruction).

mod install;
mod memory;
mod probe_image;
pub(crate) mod ptrace;
mod registers;
pub(crate) mod start;
