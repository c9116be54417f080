//! The user's options for finding symbols.

use std::{num::NonZero, path::PathBuf};

/// Where to look, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Prefix of every recorded path, for profiles of another root (container, target image).
    pub sysroot: Option<PathBuf>,
    /// Directories of binaries and debug files, searched before the system's own.
    pub debug_paths: Vec<PathBuf>,
    /// Private directory of results by build-id; `None` switches the cache off.
    pub cache_dir: Option<PathBuf>,
    /// debuginfod servers, tried in order when nothing local has debug information.
    pub debuginfod_urls: Vec<String>,
    /// The program, named by the user: used for the module with its build-id, or for the one
    /// with its file name when the profile recorded no build-id.
    pub main_program: Option<PathBuf>,
    /// Threads to use; 0 takes as many as the machine has.
    pub jobs: usize,
    /// Whether inlined functions get lines of their own.
    pub inlines: bool,
    /// Whether functions that have no name but an unwind entry are called `module+0xoffset` after
    /// their first byte, so that all their addresses add up in one row.
    pub unnamed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sysroot: None,
            debug_paths: Vec::new(),
            cache_dir: None,
            debuginfod_urls: Vec::new(),
            main_program: None,
            jobs: 0,
            inlines: true,
            unnamed: true,
        }
    }
}

impl Options {
    /// Number of threads, never 0.
    pub(crate) fn threads(&self) -> usize {
        match self.jobs {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            jobs => jobs,
        }
    }
}
