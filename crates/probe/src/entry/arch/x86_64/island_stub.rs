//! The stub that islands jump to: one for every function that is hooked at its entry.
//!
//! An island pushes the address of the function's cell and jumps here with the arguments as they
//! came. Callers inside the same binary may have been compiled with the knowledge of the registers
//! that the function changes (`-fipa-ra`), so all other registers keep their values: the stub saves
//! what the probe's code may change. The fast path changes no vector registers, which a test of the
//! compiled library checks (`capture/src/attach/fast_path_registers.rs`); other code uses xmm0 to
//! xmm15. The real function is called here and not in Rust, because it may throw.
#![allow(unsafe_code)]

use core::arch::naked_asm;

use heapwise_format::entry_hooks::{AFTER, BEFORE, CELL_SHAPE, Shape};

use crate::hooks::entry_points::{CALL_BYTES, after_call, before_call};
use crate::record::{Counted, allocate_exact, flush, release_exact};

/// Saves or restores the vector registers, at [`CALL_BYTES`].
macro_rules! vectors {
    (save) => {
        vectors!(save 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (restore) => {
        vectors!(restore 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (save $($n:literal)+) => {
        concat!($("movups xmmword ptr [rsp + {call} + 16 * ", $n, "], xmm", $n, "\n",)+)
    };
    (restore $($n:literal)+) => {
        concat!($("movups xmm", $n, ", xmmword ptr [rsp + {call} + 16 * ", $n, "]\n",)+)
    };
}

/// See above. On entry: the cell, then the return address on the stack.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn island_stub() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa_offset 16",
        "endbr64",
        "sub rsp, {frame}",
        ".cfi_def_cfa_offset {frame} + 16",
        "mov qword ptr [rsp], rdi",
        "mov qword ptr [rsp + 8], rsi",
        "mov qword ptr [rsp + 16], rdx",
        "mov qword ptr [rsp + 24], rcx",
        "mov qword ptr [rsp + 32], r8",
        "mov qword ptr [rsp + 40], r9",
        "mov rax, qword ptr [rsp + {frame} + 8]",
        "mov qword ptr [rsp + 56], rax",
        "lea rax, [rsp + {frame} + 16]",
        "mov qword ptr [rsp + 64], rax",
        "mov qword ptr [rsp + 72], rbp",
        "mov rax, qword ptr [rsp + {frame}]",
        "mov qword ptr [rsp + 80], rax",
        "test byte ptr [rax + {shape}], {before_bit}",
        "je 2f",
        // Before the call: the arguments are saved already.
        "mov qword ptr [rsp + {call} + 256 + 48], r10",
        "mov qword ptr [rsp + {call} + 256 + 56], r11",
        "mov r11d, dword ptr [rax + {shape}]",
        "xor eax, eax",
        "cmp r11d, {release}",
        "jne 10f",
        "mov rsi, qword ptr [rsp + 56]",
        "mov rdx, rsp",
        "call {release_exact}",
        "cmp eax, {counted}",
        "je 4f",
        "10:",
        vectors!(save),
        "mov rdi, rsp",
        "test eax, eax",
        "jne 6f",
        "call {before}",
        "jmp 7f",
        "6:",
        "call {flush}",
        "7:",
        vectors!(restore),
        "4:",
        "mov r11, qword ptr [rsp + {call} + 256 + 56]",
        "mov r10, qword ptr [rsp + {call} + 256 + 48]",
        "mov r9, qword ptr [rsp + 40]",
        "mov r8, qword ptr [rsp + 32]",
        "mov rcx, qword ptr [rsp + 24]",
        "mov rdx, qword ptr [rsp + 16]",
        "mov rsi, qword ptr [rsp + 8]",
        "mov rdi, qword ptr [rsp]",
        "mov rax, qword ptr [rsp + 80]",
        "2:",
        "call qword ptr [rax]",
        "mov qword ptr [rsp + 48], rax",
        "mov rax, qword ptr [rsp + 80]",
        "test byte ptr [rax + {shape}], {after_bit}",
        "je 3f",
        // After the call: its registers are what the caller expects.
        "mov qword ptr [rsp + {call} + 256], rdi",
        "mov qword ptr [rsp + {call} + 256 + 8], rsi",
        "mov qword ptr [rsp + {call} + 256 + 16], rdx",
        "mov qword ptr [rsp + {call} + 256 + 24], rcx",
        "mov qword ptr [rsp + {call} + 256 + 32], r8",
        "mov qword ptr [rsp + {call} + 256 + 40], r9",
        "mov qword ptr [rsp + {call} + 256 + 48], r10",
        "mov qword ptr [rsp + {call} + 256 + 56], r11",
        // The size is an argument: its number is in the last byte of the shape.
        "mov r11d, dword ptr [rax + {shape}]",
        "xor eax, eax",
        "test r11d, {others}",
        "jne 11f",
        "shr r11d, 24",
        "mov rsi, qword ptr [rsp + r11 * 8]",
        "mov rdi, qword ptr [rsp + 48]",
        "mov rdx, qword ptr [rsp + 56]",
        "lea rcx, [rsp + {frame} + 16]",
        "mov r8, rbp",
        "mov r9, rsp",
        "call {allocate_exact}",
        "cmp eax, {counted}",
        "je 5f",
        "11:",
        vectors!(save),
        "mov rdi, rsp",
        "test eax, eax",
        "jne 8f",
        "call {after}",
        "jmp 9f",
        "8:",
        "call {flush}",
        "9:",
        vectors!(restore),
        "5:",
        "mov r11, qword ptr [rsp + {call} + 256 + 56]",
        "mov r10, qword ptr [rsp + {call} + 256 + 48]",
        "mov r9, qword ptr [rsp + {call} + 256 + 40]",
        "mov r8, qword ptr [rsp + {call} + 256 + 32]",
        "mov rcx, qword ptr [rsp + {call} + 256 + 24]",
        "mov rdx, qword ptr [rsp + {call} + 256 + 16]",
        "mov rsi, qword ptr [rsp + {call} + 256 + 8]",
        "mov rdi, qword ptr [rsp + {call} + 256]",
        "3:",
        "mov rax, qword ptr [rsp + 48]",
        "add rsp, {frame} + 8",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        call = const CALL_BYTES,
        frame = const CALL_BYTES + 256 + 64,
        shape = const CELL_SHAPE,
        before_bit = const BEFORE,
        after_bit = const AFTER,
        counted = const Counted::Done as u32,
        release = const Shape::Release.word(),
        others = const 0xff_ff00_u32,
        release_exact = sym release_exact,
        allocate_exact = sym allocate_exact,
        flush = sym flush,
        before = sym before_call,
        after = sym after_call,
    )
}
