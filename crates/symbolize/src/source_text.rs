//! Source files named by debug information. The maker of the binary or profile chose the names: a
//! device or a pipe among them would not end.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Many times the largest source file there is.
const LARGEST_BYTES: u64 = 64 << 20;

/// The text of a regular file; `None` when it cannot be read.
#[must_use]
pub fn read(path: &str) -> Option<String> {
    if !Path::new(path).metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LARGEST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}
