//! Writes a module's record into the segment.
#![allow(unsafe_code)]

use heapwise_format::segment::Module;

use super::{ElfSegment, Image};
use crate::arch::syscall;
use crate::injected;
use crate::sys;

/// Name of the kernel's own object, which is not a file.
const VDSO: &[u8] = b"[vdso]";

/// The record of the module that `image` has in `segment`.
pub(super) fn describe(image: &Image, segment: &ElfSegment, generation: u32) -> Module {
    let mut record = Module {
        start: segment.start,
        end: segment.end,
        file_offset: segment.file_offset,
        bias: image.bias,
        generation,
        build_id_len: 0,
        build_id: [0; 32],
        path: [0; 568],
    };
    for (to, from) in record.build_id.iter_mut().zip(image.build_id()) {
        *to = *from;
        record.build_id_len += 1;
    }
    write_path(&mut record.path, image);
    record
}

fn write_path(path: &mut [u8], image: &Image) {
    let name = image.name().to_bytes();
    if is_vdso(image) {
        put(path, 0, VDSO);
    } else if name.is_empty() {
        let _ = sys::read_link(c"/proc/self/exe", path);
    } else if let Some(library) = injected::library::<568>().filter(|_| name.starts_with(b"/proc/self/fd/")) {
        put(path, 0, library.as_bytes());
    } else if name.first() == Some(&b'/') {
        put(path, 0, name);
    } else {
        let len = current_directory(path);
        put(path, len, b"/");
        put(path, len + 1, name);
    }
}

fn is_vdso(image: &Image) -> bool {
    let start = sys::auxiliary(libc::AT_SYSINFO_EHDR);
    start != 0 && image.bytes_from(start).is_some()
}

/// Puts the current directory at the front of `into`; its length.
fn current_directory(into: &mut [u8]) -> usize {
    let arguments = [into.as_mut_ptr() as usize, into.len(), 0, 0, 0, 0];
    // SAFETY: the kernel writes at most `into.len()` bytes.
    let result = unsafe { syscall(libc::SYS_getcwd, arguments) };
    // The result counts the NUL.
    usize::try_from(result).unwrap_or(0).saturating_sub(1)
}

/// Copies `bytes` to `path[at..]`; what does not fit is cut from the left of the whole.
fn put(path: &mut [u8], at: usize, bytes: &[u8]) {
    let room = path.len();
    let excess = (at + bytes.len()).saturating_sub(room);
    let kept_before = at.saturating_sub(excess);
    path.copy_within(at.min(room) - kept_before.min(at)..at.min(room), 0);
    let bytes = bytes.get(bytes.len().saturating_sub(room)..).unwrap_or(&[]);
    for (to, from) in path.iter_mut().skip(kept_before).zip(bytes) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::put;

    #[test]
    fn long_paths_lose_their_left_end() {
        let mut path = [0; 8];
        put(&mut path, 0, b"/usr");
        assert_eq!(&path, b"/usr\0\0\0\0");
        put(&mut path, 4, b"/lib");
        assert_eq!(&path, b"/usr/lib");
        put(&mut path, 8, b"/x");
        assert_eq!(&path, b"sr/lib/x");
        put(&mut path, 0, b"/a/very/long/path");
        assert_eq!(&path, b"ong/path");
    }
}
