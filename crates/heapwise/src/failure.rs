//! Errors of commands, and their exit status.

use std::fmt;
use std::path::Path;

/// One line that names what was wrong, where, and what to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A usage or input error: exit status 2.
    Input(String),
    /// A gate (`heapwise check`) that did not hold: exit status 1.
    Gate(String),
    /// A gate that cannot be decided, because the profile is not complete: exit status 3.
    Undecided(String),
}

/// What commands return.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// An input error about a file.
    pub(crate) fn file(path: &Path, what: impl fmt::Display) -> Self {
        Failure::Input(format!("{}: {what}", path.display()))
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Input(_) => 2,
            Failure::Gate(_) => 1,
            Failure::Undecided(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Input(line) | Failure::Gate(line) | Failure::Undecided(line) => out.write_str(line),
        }
    }
}

impl From<heapwise_capture::failure::Failure> for Failure {
    fn from(failure: heapwise_capture::failure::Failure) -> Self {
        Failure::Input(failure.to_string())
    }
}

/// Builds an input error from a format string.
#[macro_export]
macro_rules! input_error {
    ($($text:tt)*) => { $crate::failure::Failure::Input(format!($($text)*)) };
}
