//! aarch64: register numbers, slots, pointer authentication.
#![allow(unsafe_code)]

use core::arch::asm;

use gimli::{AArch64, Register};

use super::rule::{FpSlot, Kind, Rule};

/// Width of a rule's CFA offset: frames up to 512 KiB.
pub(super) const CFA_BITS: u32 = 17;
/// Width of a rule's slots; x29 and x30 may be saved at the bottom of a frame, up to 128 KiB down.
pub(super) const SLOT_BITS: u32 = 15;

pub(super) const SP: Register = AArch64::SP;
pub(super) const FP: Register = AArch64::X29;
/// Registers that a function keeps for its caller.
pub(super) const CALLEE_SAVED: [Register; 11] = [
    AArch64::X19,
    AArch64::X20,
    AArch64::X21,
    AArch64::X22,
    AArch64::X23,
    AArch64::X24,
    AArch64::X25,
    AArch64::X26,
    AArch64::X27,
    AArch64::X28,
    AArch64::X29,
];
/// The column that holds the return address.
pub(super) const RA: Register = AArch64::X30;
/// Expressions cannot name the current address.
pub(super) const PC: Option<Register> = None;
/// A return address may still be in x30.
pub(super) const HAS_LINK_REGISTER: bool = true;
/// The signal trampoline is the kernel's, but emulators have no vDSO and put it anywhere.
pub(super) const HAS_STRAY_TRAMPOLINES: bool = true;
/// The frame records of Go are below the frames here: the caller's stack pointer is not known.
pub(super) const GO_KEEPS_FRAMES: bool = false;
/// Vendor of the vendor-specific call frame instructions.
pub(super) const VENDOR: gimli::Vendor = gimli::Vendor::AArch64;

/// Byte offset of `regs[0]` in the kernel's `rt_sigframe`, which sp points to inside the
/// trampoline: `siginfo` 128, `ucontext` up to `uc_mcontext` 176, `fault_address` 8.
const REGISTERS: u64 = 128 + 176 + 8;

/// Word of `rt_sigframe` that holds x30.
pub(super) const SIGNAL_LINK_WORD: u64 = REGISTERS / 8 + 30;

/// `mov x8, #139; svc #0`: the kernel's trampoline. Its own unwind information only describes the
/// frame record, so the code is what identifies it (as in libgcc).
const TRAMPOLINE: [u8; 8] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

/// The rule of a signal trampoline known by its code.
pub(super) fn trampoline_rule(code: &[u8]) -> Option<Rule> {
    let word = |register: u64| REGISTERS / 8 + register;
    if code.starts_with(&TRAMPOLINE) {
        Rule::new(Kind::Signal, word(31) as i64, FpSlot::Saved(word(29)), word(32))
    } else {
        None
    }
}

/// An entry of the procedure linkage table, as masks and values: `bti c` (where branches are
/// protected), `adrp x16`, `ldr x17, [x16]`, `add x16, x16`, `br x17`.
const LINKAGE: [(u32, u32); 5] = [
    (!0, 0xd503_245f),
    (0x9f00_001f, 0x9000_0010),
    (0xffc0_03ff, 0xf940_0211),
    (0xffc0_03ff, 0x9100_0210),
    (!0, 0xd61f_0220),
];

/// The rule inside the procedure linkage table, which linkers do not describe here. It leaves sp
/// and x30 alone, so wherever an entry was interrupted, only the rest of it need be there.
pub(super) fn linkage_rule(code: &[u8]) -> Option<Rule> {
    let goes_on = |entry: &[(u32, u32)]| {
        let mut words = code.chunks_exact(4).filter_map(|word| word.try_into().ok()).map(u32::from_le_bytes);
        entry.iter().all(|(mask, value)| words.next().is_some_and(|word| word & mask == *value))
    };
    let found = (0..LINKAGE.len()).filter_map(|from| LINKAGE.get(from..)).any(goes_on);
    if found { Rule::new(Kind::Leaf, 0, FpSlot::Kept, 0) } else { None }
}

/// Bytes of code before a return address that [`follows_call`] reads.
pub(super) const CALL_BYTES: u64 = 4;

/// Bytes of a call whose destination is part of the instruction.
pub(super) const DIRECT_CALL_BYTES: u64 = 4;

/// Do these bytes, the last ones before a return address, end in a call instruction?
pub(super) fn follows_call(before: [u8; CALL_BYTES as usize]) -> bool {
    let instruction = u32::from_le_bytes(before);
    // bl; blr and its authenticating forms
    instruction >> 26 == 0b100101 || instruction & 0xfeff_f000 == 0xd63f_0000
}

/// The address of a code pointer as loaded from memory: without its authentication code.
#[inline(always)]
pub(super) fn strip(pc: u64) -> u64 {
    let stripped;
    // SAFETY: `xpaclri` (hint 7, a no-op on older cores) only changes x30.
    unsafe { asm!("hint 7", inout("x30") pc => stripped, options(nomem, nostack, preserves_flags)) };
    stripped
}

/// The thread's control block, which libc puts at the top of the stack it allocates.
pub(crate) fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: reading the register has no effect.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}
