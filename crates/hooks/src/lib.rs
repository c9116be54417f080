//! Which allocators a binary has, and how their functions can be hooked at their entry.
//!
//! Pure: files in, values out. Reading order: [`function`] (names and shapes of allocation
//! functions), `symbol_search` (whether a file may define any), [`binary`] (symbols of an ELF
//! file), `texts` (allocators without symbols), [`family`] (allocators found in it), [`maps`]
//! (where the file is in a process), [`plan`] (which functions are hooked), [`site`] (moving the
//! first instructions of a function), [`island`] (the code that a hooked function jumps to).

pub mod binary;
pub mod family;
mod file_blocks;
pub mod function;
pub mod island;
pub mod maps;
mod pieces;
pub mod plan;
pub mod site;
mod symbol_search;
mod texts;
