//! The stub that islands jump to: one for every function that is hooked at its entry.
//!
//! An island jumps here with the address of the function's cell in x16 and everything else as it
//! came; x16 and x17 may change in any call. Callers inside the same binary may have been compiled
//! with the knowledge of the registers that the function changes (`-fipa-ra`), so all other
//! registers keep their values: the stub saves what the probe's code may change. The real function
//! is called here and not in Rust, because it may throw.
#![allow(unsafe_code)]

use core::arch::naked_asm;

use heapwise_format::entry_hooks::{AFTER, BEFORE, CELL_SHAPE};

use crate::hooks::entry_points::{CALL_BYTES, after_call, before_call};

const _: () = assert!(BEFORE == 1 && AFTER == 2, "the bits that the stub tests");

/// Saves or restores registers that a function may change: x1 to x15 from [`CALL_BYTES`] on, then
/// the vector registers.
macro_rules! registers {
    ($pair:literal) => {
        concat!(
            registers!(@x $pair 0 1, 2 3, 4 5, 6 7, 8 9, 10 11, 12 13, 14 15),
            registers!(@q $pair 0 1, 2 3, 4 5, 6 7, 8 9, 10 11, 12 13, 14 15, 16 17, 18 19, 20 21, 22 23, 24 25,
                26 27, 28 29, 30 31)
        )
    };
    (@x $pair:literal $($a:literal $b:literal),+) => {
        concat!($($pair, " x", $a, ", x", $b, ", [sp, {call} + 8 * ", $a, "]\n",)+)
    };
    (@q $pair:literal $($a:literal $b:literal),+) => {
        concat!($($pair, " q", $a, ", q", $b, ", [sp, {call} + 128 + 16 * ", $a, "]\n",)+)
    };
}

/// See above. On entry: the cell in x16, the return address in x30.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn island_stub() {
    naked_asm!(
        ".cfi_startproc",
        "hint #34", // bti c
        "sub sp, sp, {frame}",
        ".cfi_def_cfa_offset {frame}",
        "str x30, [sp, {link}]",
        ".cfi_offset x30, {link} - {frame}",
        "stp x0, x1, [sp]",
        "stp x2, x3, [sp, 16]",
        "stp x4, x5, [sp, 32]",
        "str x30, [sp, 56]",
        "add x17, sp, {frame}",
        "str x17, [sp, 64]",
        "str x29, [sp, 72]",
        "str x16, [sp, 80]",
        "ldr w17, [x16, {shape}]",
        "tbz w17, 0, 2f",
        registers!("stp"),
        "mov x0, sp",
        "bl {before}",
        registers!("ldp"),
        "ldr x16, [sp, 80]",
        "2:",
        "ldr x16, [x16]",
        "blr x16",
        "str x0, [sp, 48]",
        "ldr x16, [sp, 80]",
        "ldr w17, [x16, {shape}]",
        "tbz w17, 1, 3f",
        registers!("stp"),
        "mov x0, sp",
        "bl {after}",
        registers!("ldp"),
        "3:",
        "ldr x0, [sp, 48]",
        "ldr x30, [sp, {link}]",
        ".cfi_restore x30",
        "add sp, sp, {frame}",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_endproc",
        call = const CALL_BYTES,
        link = const CALL_BYTES + 128 + 512,
        frame = const CALL_BYTES + 128 + 512 + 16,
        shape = const CELL_SHAPE,
        before = sym before_call,
        after = sym after_call,
    )
}
