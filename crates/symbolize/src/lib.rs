//! Binaries in, names and lines out.
//!
//! [`symbolize`] is a join: a profile's locations with the symbols of the binaries on this machine.
//! Reading order: [`Options`], `join` (the whole), `module_request` and `module_result` (one
//! binary's share), `search` (which file), `resolver` (symbols of a file), then the sources of
//! names: `dwarf`, `split_unit`, `symbol_table`, `unwind_extent`, `mini_debug`. docs/SYMBOLS.md is
//! for users.

mod address;
mod cache;
mod compiled;
mod debug_file;
mod debuginfod;
mod demangle;
mod dwarf;
mod elf;
mod image;
mod join;
mod load_segments;
mod metered;
mod mini_debug;
mod mmap;
mod module_request;
mod module_result;
mod options;
mod own_allocator;
mod parallel;
mod private_file;
mod report;
mod resolver;
mod routine;
mod search;
pub mod source_text;
mod split_unit;
mod symbol_table;
mod symbols;
mod unwind_extent;
mod vdso;

pub use address::{FileOffset, Svma};
pub use compiled::name_compiled_until_now;
pub use demangle::demangle;
pub use heapwise_profile::model::SymbolProblem as Problem;
pub use join::symbolize;
pub use options::Options;
pub use report::{Detail, ModuleReport, Report};
pub use resolver::{Resolver, build_id_of};
pub use routine::{Routine, routines};
pub use symbols::Symbols;
