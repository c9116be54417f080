//! Directories of tests.

use std::path::{Path, PathBuf};

/// An empty directory that is removed with the value.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty directory of this name, of this process alone.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("heapwise-fleet-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory for a test");
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
