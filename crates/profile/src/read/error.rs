//! Why bytes are not a profile: what was wrong, and where, in one line.

use std::fmt;

use crate::quantity;

pub use crate::model::Position;

/// Why bytes are not a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The input is empty.
    Empty,
    /// No known format begins like this.
    Unrecognised {
        /// The first bytes, escaped.
        begins: String,
    },
    /// A known format, but broken.
    Malformed {
        /// Name of the format.
        format: &'static str,
        /// Where reading stopped.
        at: Position,
        /// What was found there, or what was expected.
        what: String,
    },
    /// Input that unfolds beyond what a profile of its size can be, or beyond the limit.
    TooLarge {
        /// Name of the compression or of the format.
        format: &'static str,
        /// Bytes at which reading was stopped.
        limit_bytes: u64,
    },
}

impl ReadError {
    pub(super) fn at_line(format: &'static str, line: u64, what: impl Into<String>) -> Self {
        Self::Malformed { format, at: Position::Line(line), what: what.into() }
    }

    pub(crate) fn at_byte(format: &'static str, byte: usize, what: impl Into<String>) -> Self {
        Self::Malformed { format, at: Position::Byte(byte as u64), what: what.into() }
    }

    pub(super) fn unrecognised(bytes: &[u8]) -> Self {
        let head = &bytes[..bytes.len().min(24)];
        Self::Unrecognised { begins: head.escape_ascii().to_string() }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Empty => write!(out, "the profile is empty (0 bytes)"),
            ReadError::Unrecognised { begins } => {
                write!(out, "not a heap profile of any known format: byte 0 begins with \"{begins}\"")
            }
            ReadError::Malformed { format, at, what } => {
                write!(out, "malformed {format} profile at {at}: {what}")
            }
            ReadError::TooLarge { format, limit_bytes } => write!(
                out,
                "{format} data unfolds to more than {}: damaged, or for a larger --limit",
                quantity::bytes(*limit_bytes as f64)
            ),
        }
    }
}

impl std::error::Error for ReadError {}

/// Text of the input for a message: escaped, and cut to a readable length.
pub(super) fn quote(text: &[u8]) -> String {
    const LONGEST: usize = 60;
    let cut = &text[..text.len().min(LONGEST)];
    let dots = if text.len() > LONGEST { "…" } else { "" };
    format!("\"{}{dots}\"", cut.escape_ascii())
}
