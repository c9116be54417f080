//! x86-64: register numbers, slots, call instructions, the thread pointer.
#![allow(unsafe_code)]

use core::arch::asm;

use gimli::{Register, X86_64};

use super::rule::{FpSlot, Kind, Rule};

/// Width of a rule's CFA offset: frames up to 512 MiB.
pub(super) const CFA_BITS: u32 = 27;
/// Width of a rule's slots; callee-saved registers sit right below the CFA.
pub(super) const SLOT_BITS: u32 = 10;

pub(super) const SP: Register = X86_64::RSP;
pub(super) const FP: Register = X86_64::RBP;
/// Registers that a function keeps for its caller.
pub(super) const CALLEE_SAVED: [Register; 6] =
    [X86_64::RBX, X86_64::RBP, X86_64::R12, X86_64::R13, X86_64::R14, X86_64::R15];
/// The column that holds the return address.
pub(super) const RA: Register = X86_64::RA;
/// The register that expressions may name for the current address.
pub(super) const PC: Option<Register> = Some(X86_64::RA);
/// A `call` pushes the return address: it is never in a register.
pub(super) const HAS_LINK_REGISTER: bool = false;
/// The signal trampoline is always part of libc.
pub(super) const HAS_STRAY_TRAMPOLINES: bool = false;
/// Whether functions of Go keep the frame pointer such that the caller's stack pointer follows it.
pub(super) const GO_KEEPS_FRAMES: bool = true;
/// Vendor of the vendor-specific call frame instructions.
pub(super) const VENDOR: gimli::Vendor = gimli::Vendor::Default;

/// Word of the kernel's `rt_sigframe` (counted from sp inside the trampoline) that holds the link
/// register; there is none here.
pub(super) const SIGNAL_LINK_WORD: u64 = 0;

/// `mov $15, %rax; syscall`: libcs whose trampoline carries no unwind information.
const TRAMPOLINE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// The rule of a signal trampoline known by its code. Offsets from sp are those of the kernel's
/// `rt_sigframe`: `uc.uc_mcontext` starts at 40, rsp at 160, rbp at 120, rip at 168.
pub(super) fn trampoline_rule(code: &[u8]) -> Option<Rule> {
    if code.starts_with(&TRAMPOLINE) {
        Rule::new(Kind::Signal, 160 / 8, FpSlot::Saved(120 / 8), 168 / 8)
    } else {
        None
    }
}

/// The rule inside the procedure linkage table: linkers describe it here.
pub(super) fn linkage_rule(_code: &[u8]) -> Option<Rule> {
    None
}

/// Bytes of code before a return address that [`follows_call`] reads.
pub(super) const CALL_BYTES: u64 = 7;

/// Bytes of a call whose destination is part of the instruction.
pub(super) const DIRECT_CALL_BYTES: u64 = 5;

/// Do these bytes, the last ones before a return address, end in a call instruction?
pub(super) fn follows_call(before: [u8; CALL_BYTES as usize]) -> bool {
    let [_, a, b, _, _, c, d] = before;
    let modrm_is_call = |byte: u8| byte >> 3 & 7 == 2;
    // call rel32; call r/m64 in its lengths of 2, 3, 6 and 7 bytes
    b == 0xe8
        || (c == 0xff && modrm_is_call(d))
        || (before[4] == 0xff && modrm_is_call(c))
        || (a == 0xff && modrm_is_call(b))
        || (before[0] == 0xff && modrm_is_call(a))
}

/// The address of a code pointer as loaded from memory.
#[inline(always)]
pub(super) fn strip(pc: u64) -> u64 {
    pc
}

/// The thread's control block, which glibc and musl put at the top of the stack they allocate.
pub(crate) fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: the ABI keeps the block's own address at fs:0.
    unsafe { asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_instructions() {
        for code in [
            [0x90, 0x90, 0xe8, 1, 2, 3, 4], // call rel32
            [0, 0, 0, 0, 0, 0xff, 0xd0],    // call *%rax
            [0, 0, 0, 0, 0xff, 0x53, 0x10], // call *0x10(%rbx)
            [0, 0xff, 0x15, 1, 2, 3, 4],    // call *x(%rip)
            [0xff, 0x94, 0x24, 1, 2, 3, 4], // call *x(%rsp)
        ] {
            assert!(follows_call(code), "{code:x?}");
        }
        assert!(!follows_call([0x90; 7]));
        assert!(!follows_call([0, 0, 0, 0, 0, 0xff, 0xe0])); // jmp *%rax
    }

    #[test]
    fn trampoline_is_known_by_its_code() {
        assert!(trampoline_rule(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05, 0x90]).is_some());
        assert_eq!(trampoline_rule(&[0x90; 9]), None);
    }
}
