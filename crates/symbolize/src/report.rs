//! Result of each module: plain data, for printing.

use std::path::PathBuf;

use crate::Problem;
use heapwise_profile::{BuildId, model::BinaryProblems};

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

impl Report {
    /// Problems of each binary with addresses that have no name.
    pub(crate) fn problems(&self) -> Vec<BinaryProblems> {
        let unnamed = self.modules.iter().filter(|module| module.resolved < module.addresses);
        let row = |module: &ModuleReport| BinaryProblems {
            path: module.path.clone(),
            build_id: module.build_id.clone(),
            problems: module.problems.clone(),
        };
        unnamed.map(row).collect()
    }
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
