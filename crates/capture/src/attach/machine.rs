//! The parts of attach that differ between instruction sets, behind the same names: registers by
//! their roles, the frame of a call in a thread, and system calls that were interrupted.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::*;

use super::ptrace::Registers;

/// The state of a stopped thread before a call.
pub(super) struct Saved {
    pub(super) tid: libc::pid_t,
    pub(super) registers: Registers,
    /// Vector registers, as the kernel's register set has them.
    pub(super) vectors: Vec<u8>,
    /// Blocked signals.
    pub(super) mask: u64,
    /// The system call that the stop interrupted.
    #[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "the registers tell it"))]
    pub(super) interrupted: Interrupted,
}

/// Bytes that are written at increasing addresses.
struct Writer {
    start: u64,
    bytes: Vec<u8>,
}

impl Writer {
    /// Zeroes between two addresses.
    fn new(start: u64, end: u64) -> Self {
        Self { start, bytes: vec![0; (end - start) as usize] }
    }

    fn put(&mut self, at: u64, value: &[u8]) {
        let from = (at - self.start) as usize;
        self.bytes[from..from + value.len()].copy_from_slice(value);
    }

    fn put_words(&mut self, at: u64, words: &[u64]) {
        for (row, word) in words.iter().enumerate() {
            self.put(at + 8 * row as u64, &word.to_le_bytes());
        }
    }
}
