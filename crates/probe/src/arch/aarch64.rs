//! aarch64.
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
    // SAFETY: the caller's promise; the kernel preserves everything but x0.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    result
}
