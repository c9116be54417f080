//! Why a command ends without its result, and the exit status that says so.

use std::fmt;
use std::path::Path;

/// One line that names what was wrong, where, and what to do.
#[derive(Debug)]
pub enum Failure {
    /// A usage or input error: exit status 2.
    Input(String),
    /// A gate (`heapwise check`) that did not hold: exit status 1.
    Gate(String),
}

/// What commands return.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// An input error about a file.
    pub fn file(path: &Path, what: impl fmt::Display) -> Self {
        Failure::Input(format!("{}: {what}", path.display()))
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Input(_) => 2,
            Failure::Gate(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Input(line) | Failure::Gate(line) => out.write_str(line),
        }
    }
}

/// Builds an input error from a format string.
#[macro_export]
macro_rules! input_error {
    ($($text:tt)*) => { $crate::failure::Failure::Input(format!($($text)*)) };
}
