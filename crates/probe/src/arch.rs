//! What differs between instruction sets: system calls, the thread's words, the stubs of the hooks.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// Shape `release` of the block alone: no further argument has to be taken care of.
macro_rules! release_alone {
    ($hook:ident) => {
        $crate::arch::release_stub!($hook, "", "");
    };
}

pub(crate) use release_alone;
