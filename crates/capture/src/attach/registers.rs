//! Registers by their roles, for each instruction set.

use super::ptrace::Registers;

/// Machine code of a breakpoint.
#[cfg(target_arch = "x86_64")]
pub(super) const BREAKPOINT: &[u8] = &[0xcc];
#[cfg(target_arch = "aarch64")]
pub(super) const BREAKPOINT: &[u8] = &[0x00, 0x00, 0x20, 0xd4];
/// Machine code of a system call.
#[cfg(target_arch = "x86_64")]
pub(super) const SYSTEM_CALL: &[u8] = &[0x0f, 0x05];
#[cfg(target_arch = "aarch64")]
pub(super) const SYSTEM_CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4];

/// Distance of the program counter from a breakpoint that was hit.
#[cfg(target_arch = "x86_64")]
pub(super) const BEHIND_BREAKPOINT: u64 = 1;
#[cfg(target_arch = "aarch64")]
pub(super) const BEHIND_BREAKPOINT: u64 = 0;

#[cfg(target_arch = "x86_64")]
mod native {
    use super::Registers;

    pub(crate) fn pc(registers: &Registers) -> u64 {
        registers.rip
    }

    pub(crate) fn set_pc(registers: &mut Registers, pc: u64) {
        registers.rip = pc;
    }

    pub(crate) fn result(registers: &Registers) -> u64 {
        registers.rax
    }

    /// Prepares a system call at the program counter.
    pub(crate) fn set_system_call(registers: &mut Registers, number: u64, arguments: [u64; 6]) {
        let [a, b, c, d, e, f] = arguments;
        (registers.rdi, registers.rsi, registers.rdx) = (a, b, c);
        (registers.r10, registers.r8, registers.r9) = (d, e, f);
        registers.rax = number;
        // Not in a system call: none is restarted.
        registers.orig_rax = u64::MAX;
    }
}

#[cfg(target_arch = "aarch64")]
mod native {
    use super::Registers;

    pub(crate) fn pc(registers: &Registers) -> u64 {
        registers.pc
    }

    pub(crate) fn set_pc(registers: &mut Registers, pc: u64) {
        registers.pc = pc;
    }

    pub(crate) fn result(registers: &Registers) -> u64 {
        registers.regs[0]
    }

    /// Prepares a system call at the program counter.
    pub(crate) fn set_system_call(registers: &mut Registers, number: u64, arguments: [u64; 6]) {
        registers.regs[..6].copy_from_slice(&arguments);
        registers.regs[8] = number;
    }
}

pub(super) use native::{pc, result, set_pc, set_system_call};
