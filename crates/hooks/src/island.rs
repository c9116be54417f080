//! Islands: generated code near a binary, which its hooked functions jump to.
//!
//! The first page is data: two mode bytes, which the probe writes, addresses in the probe, and the
//! address of each function's cell. Each function has [`PAD`] bytes of code behind it: the hot path
//! (countdown or page filter), the function's moved instructions, and the way to the probe.

pub mod aarch64;
pub mod x86_64;

use heapwise_format::entry_hooks::Shape;

#[cfg(target_arch = "aarch64")]
pub use aarch64 as native;
#[cfg(target_arch = "x86_64")]
pub use x86_64 as native;

/// Bytes of the data page.
pub const DATA: u64 = 4096;
/// Bytes of code per function.
pub const PAD: u64 = 256;
/// Most functions of an island: their addresses fit into the data page.
pub const MOST: usize = 192;
/// Offset of the stub's address in the data page.
pub const STUB: u64 = 8;
/// Offset of the page filter's address in the data page.
pub const FILTER: u64 = 16;
const TARGETS: u64 = 64;

/// Offset of the address of a function's cell in the data page.
#[must_use]
pub fn target(index: usize) -> u64 {
    TARGETS + 8 * index as u64
}

/// Bytes of an island of so many functions.
#[must_use]
pub fn bytes(functions: usize) -> u64 {
    (DATA + PAD * functions as u64).next_multiple_of(4096)
}

/// How a hooked function continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By the hot path of its shape, else through the probe's stub with its cell.
    Cell(Shape),
    /// Always through the probe's stub: it jumps to another hooked function, whose hot path would
    /// count it again, or the size of its block is not among its arguments.
    CellAlways,
    /// By a jump to a function of the probe.
    Jump,
}

/// Where an island is, and what its code needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Island {
    /// First address.
    pub start: u64,
    /// Offset of the probe's words from the thread pointer.
    pub thread_words: i64,
}

/// The code of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it is: the target of the function's jump.
    pub start: u64,
    /// The bytes, at most [`PAD`].
    pub code: Vec<u8>,
    /// The moved instructions: the real function.
    pub real: u64,
    /// Old and new addresses of moved instructions.
    pub addresses: Vec<(u64, u64)>,
}
