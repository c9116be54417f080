//! Code that differs between instruction sets: system calls, the thread's words, the stubs of the
//! hooks.
#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// The same word, of which LLVM knows nothing.
#[inline(always)]
pub(crate) fn opaque_word(mut word: u64) -> u64 {
    // SAFETY: no instruction.
    unsafe {
        core::arch::asm!("/* {0} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags));
    }
    word
}

/// Shape `release` of the block alone: no further argument has to be taken care of.
macro_rules! release_alone {
    ($hook:ident) => {
        $crate::arch::release_stub!($hook, "", "");
    };
}

pub(crate) use release_alone;
