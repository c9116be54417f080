//! Time.
#![allow(unsafe_code)]

use crate::sys;

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: libc's call goes through the vDSO, fills `time` and takes no lock.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The vDSO falls back to a system call on some clock sources, but never for the coarse clock.
pub(crate) fn monotonic_ns() -> u64 {
    if sys::are_syscalls_disabled() { coarse_ns() } else { nanoseconds(libc::CLOCK_MONOTONIC) }
}

/// To the kernel's tick (1–10 ms), at a quarter of the cost.
pub(crate) fn coarse_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC_COARSE)
}

pub(crate) fn realtime_ns() -> u64 {
    nanoseconds(libc::CLOCK_REALTIME)
}

/// Since the machine started, suspended times included.
pub(crate) fn boot_ns() -> u64 {
    nanoseconds(libc::CLOCK_BOOTTIME)
}
