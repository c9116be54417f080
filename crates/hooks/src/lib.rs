//! Which allocators a binary has, and how their functions can be hooked at their entry.
//!
//! Pure: files in, values out. Reading order: [`function`] (names and shapes of allocation
//! functions), [`binary`] (symbols of an ELF file), [`family`] (allocators found in it).

pub mod binary;
pub mod family;
pub mod function;
