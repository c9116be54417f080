//! Entry points of the fuzzers: what this crate reads that others wrote.

use crate::compat;

/// jeprof's command line, an argument a line.
pub fn jeprof(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let arguments: Vec<String> = text.lines().map(str::to_owned).collect();
    let _ = compat::jeprof::options::parse(&arguments, false);
}
