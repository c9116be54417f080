//! Checks through the kernel whether a file has a writer.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

/// Whether no process on this machine, in any namespace, has the file open or mapped for writing;
/// false when the system does not support the check. `file` is open for reading only.
///
/// The kernel grants a lease for reading on such files only. While it lasts, a process that opens
/// the file for writing waits until it is closed, and this process gets a signal that it ignores.
pub(crate) fn has_no_writer(file: &File) -> bool {
    // SAFETY: `fcntl` with integers on a descriptor that `file` keeps open.
    let control = |command, argument: i32| unsafe { libc::fcntl(file.as_raw_fd(), command, argument) == 0 };
    control(F_SETSIG, libc::SIGURG) && control(libc::F_SETLEASE, libc::F_RDLCK)
}

/// From the kernel's `fcntl.h`.
const F_SETSIG: i32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_open_for_writing_has_a_writer() {
        let path = std::env::temp_dir().join(format!("heapwise-lease-{}", std::process::id()));
        let writer = File::create(&path).expect("created");
        let has_none = || has_no_writer(&File::open(&path).expect("there"));
        assert!(!has_none());
        drop(writer);
        // A program that another test starts has our descriptors for a moment.
        while !has_none() {
            std::thread::yield_now();
        }
        std::fs::remove_file(&path).expect("removed");
    }
}
