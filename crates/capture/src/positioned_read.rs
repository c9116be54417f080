//! Reads of a file that other processes write, truncate or remove.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

/// Fills `buffer` from `offset` on; returns the number of bytes read, which is smaller at the end
/// of the file and after an error.
pub(crate) fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> usize {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    done
}
