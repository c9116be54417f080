//! Why a developer command stopped: one line for the person at the terminal.

use std::fmt;
use std::io;
use std::path::Path;

/// One line saying what could not be done.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// A failure with the message `text`.
    pub fn new(text: impl Into<String>) -> Failure {
        Failure(text.into())
    }

    /// An input or output error on `path`.
    pub fn at(path: &Path, error: io::Error) -> Failure {
        Failure(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
