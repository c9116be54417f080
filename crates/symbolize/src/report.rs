//! Result of each module: plain data, for printing.

use std::{fmt, path::PathBuf};

use heapwise_profile::BuildId;

/// Outcome of [`crate::symbolize`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// One entry per distinct binary that had addresses to resolve, in module order.
    pub modules: Vec<ModuleReport>,
    /// Locations that had no lines and have an address.
    pub locations: usize,
    /// Those of them that have a name now.
    pub resolved: usize,
}

/// Outcome for one binary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModuleReport {
    /// Path as recorded.
    pub path: String,
    /// Recorded build-id, or else that of the file found.
    pub build_id: BuildId,
    /// File that was read; `None` when the cache had everything or nothing was found.
    pub image: Option<PathBuf>,
    /// File the debug information came from, if it was read and is not `image`.
    pub debug_file: Option<PathBuf>,
    /// The best that is known about this binary.
    pub detail: Detail,
    /// Distinct addresses requested.
    pub addresses: usize,
    /// Those that have a name.
    pub resolved: usize,
    /// Those that were answered by the cache.
    pub cached: usize,
    /// Why something is missing; empty when all is well.
    pub problems: Vec<Problem>,
}

/// How much a binary contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// Function names from symbol tables.
    Names,
    /// DWARF: inlined functions, files and lines.
    Lines,
}

/// Why a binary was not fully used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// No file for the module.
    NotFound,
    /// The file at the recorded path is another build.
    BuildIdMismatch {
        /// The file.
        path: PathBuf,
        /// Its build-id; empty if it has none.
        found: BuildId,
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

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NotFound => write!(out, "binary not found"),
            Problem::BuildIdMismatch { path, found } if found.is_empty() => {
                write!(out, "{} is another build (it has no build-id)", path.display())
            }
            Problem::BuildIdMismatch { path, found } => {
                write!(out, "{} is another build ({found})", path.display())
            }
            Problem::Damaged { path, reason } => write!(out, "{}: {reason}", path.display()),
            Problem::NoDebugInfo => write!(out, "no debug information"),
            Problem::NoSymbols => write!(out, "no symbols"),
            Problem::Debuginfod { url, reason } => write!(out, "{url}: {reason}"),
        }
    }
}
