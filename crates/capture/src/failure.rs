//! Errors: one line that names what was wrong, where, and what to do.

use std::fmt;
use std::path::Path;

/// An error in the input or its surroundings, worded for the user.
#[derive(Debug)]
pub struct Failure(String);

/// What functions of this crate return.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with this line as its message.
    pub fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }

    /// A failure about a file.
    pub fn file(path: &Path, what: impl fmt::Display) -> Self {
        Self(format!("{}: {what}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Builds a [`Failure`] from a format string.
#[macro_export]
macro_rules! input_error {
    ($($text:tt)*) => { $crate::failure::Failure::new(format!($($text)*)) };
}
