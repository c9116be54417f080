//! The wait status of a process that is not a child of this one.
#![allow(unsafe_code)]

use std::fs;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::batch::End;

/// `struct pidfd_info` of the kernel, as it was first published.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    /// Process and group, parent, users and groups.
    ids: [u32; 11],
    exit_code: i32,
}

const _: () = assert!(size_of::<PidfdInfo>() == 64);

/// `_IOWR(0xFF, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::Ioctl = 0xc040_ff0b;
/// The exit code is known.
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// A process, as a descriptor that becomes readable when the process ends.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    pid: u32,
    handle: OwnedFd,
}

impl ProcessHandle {
    /// Opens a running process; `None` where there is none, or the kernel is older than 5.3.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let handle = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, handle })
    }

    /// How the process ended, where that can be known: from the kernel after its parent has read
    /// the status (Linux 6.15), or from `/proc` before.
    pub(crate) fn end(&self) -> Option<End> {
        self.status_of_reaped()
            .or_else(|| status_of_zombie(self.pid))
            .or_else(|| self.status_of_reaped())
            .map(end_of)
    }

    fn status_of_reaped(&self) -> Option<i32> {
        let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
        // SAFETY: the kernel writes at most the bytes that the request's number states, which are
        // those of `info` (the assertion above); `info` lives until the call returns.
        let failed = unsafe { libc::ioctl(self.handle.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) } != 0;
        (!failed && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// The last field of `/proc/PID/stat` of a process that has ended and whose parent has not read
/// its status.
fn status_of_zombie(pid: u32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let mut fields = stat.get(stat.rfind(')')? + 2..)?.split_whitespace();
    let is_zombie = fields.next().is_some_and(|state| state == "Z" || state == "X");
    fields.next_back().filter(|_| is_zombie)?.parse().ok()
}

/// The meaning of a wait status.
fn end_of(status: i32) -> End {
    match status & 0x7f {
        0 => End::Exited(Some((status >> 8) as u8)),
        signal => End::Killed(Some(signal as u8)),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs a shell script and returns its end: before its status is read, and after.
    fn ends(script: &str) -> (Option<End>, Option<End>) {
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let handle = ProcessHandle::open(child.id()).unwrap();
        let mut wait = [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut wait, None).unwrap();
        let before = handle.end();
        child.wait().unwrap();
        (before, handle.end())
    }

    #[test]
    fn ends_are_known_before_the_parent_reads_them() {
        assert_eq!(ends("exit 3").0, Some(End::Exited(Some(3))));
        assert_eq!(ends("exit 0").0, Some(End::Exited(Some(0))));
        assert_eq!(ends("kill -9 $$").0, Some(End::Killed(Some(9))));
    }

    /// Kernels before 6.15 do not have the status any more.
    #[test]
    fn ends_of_reaped_processes_are_true_or_unknown() {
        let after = ends("exit 7").1;
        assert!(after.is_none() || after == Some(End::Exited(Some(7))), "{after:?}");
        let after = ends("kill -15 $$").1;
        assert!(after.is_none() || after == Some(End::Killed(Some(15))), "{after:?}");
    }

    #[test]
    fn a_core_dump_is_a_kill() {
        assert_eq!(end_of(0x80 | 11), End::Killed(Some(11)));
        assert_eq!(end_of(255 << 8), End::Exited(Some(255)));
    }
}
