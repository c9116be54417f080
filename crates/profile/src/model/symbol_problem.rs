//! Why addresses of a binary have no names.

use std::fmt;
use std::path::PathBuf;

use super::BuildId;

/// Problems of one binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryProblems {
    /// Path as recorded.
    pub path: String,
    /// Recorded build-id, or else that of the file found.
    pub build_id: BuildId,
    /// The problems, the first one found first.
    pub problems: Vec<SymbolProblem>,
}

/// Why a binary was not fully used for names and lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SymbolProblem {
    /// No file for the module.
    NotFound,
    /// The file at the recorded path is another build.
    BuildIdMismatch {
        /// The file.
        path: PathBuf,
        /// Its build-id; empty if it has none.
        found: BuildId,
    },
    /// The profile has no build-id for the module, and the file is newer than the profile.
    Newer {
        /// The file.
        path: PathBuf,
    },
    /// The file is not an ELF binary or is damaged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error in it.
        reason: String,
    },
    /// There are names, but no lines.
    NoDebugInfo,
    /// There are neither names nor lines.
    NoSymbols,
    /// A debuginfod server could not be used.
    Debuginfod {
        /// The server.
        url: String,
        /// The error.
        reason: String,
    },
}

impl fmt::Display for SymbolProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => write!(out, "binary not found"),
            Self::BuildIdMismatch { path, found } if found.is_empty() => {
                write!(out, "{} is another build (it has no build-id)", path.display())
            }
            Self::BuildIdMismatch { path, found } => {
                write!(out, "{} is another build ({found})", path.display())
            }
            Self::Newer { path } => {
                write!(out, "{} is newer than the profile and has no recorded build-id", path.display())
            }
            Self::Damaged { path, reason } => write!(out, "{}: {reason}", path.display()),
            Self::NoDebugInfo => write!(out, "no debug information"),
            Self::NoSymbols => write!(out, "no symbols"),
            Self::Debuginfod { url, reason } => write!(out, "{url}: {reason}"),
        }
    }
}
