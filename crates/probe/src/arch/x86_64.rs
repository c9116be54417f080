//! x86-64.
#![allow(unsafe_code)]

use core::arch::asm;

/// A raw system call; a negative result is a negated errno. libc's `errno` stays untouched.
///
/// # Safety
/// The kernel's contract of call `number`.
#[inline(always)]
pub(crate) unsafe fn syscall(number: i64, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the caller's promise; the kernel preserves everything but rax, rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}
