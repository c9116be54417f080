//! `cargo xtask victims [OUT]`: builds the victim programs of `tests/programs` and prints their
//! folder.

use std::path::{Path, PathBuf};

use heapwise_testkit::failure::Failure;
use heapwise_testkit::programs;

/// Default folder of victims: beside the other build products.
fn default_folder(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("victims")
}

/// Compiles every victim into `out`; their paths.
pub(crate) fn build(root: &Path, out: &Path) -> Result<Vec<PathBuf>, Failure> {
    programs::build(&root.join("tests/programs"), out)
}

/// The command: prints the folder on stdout, for scripts and tests.
pub(crate) fn command(root: &Path, out: Option<&str>) -> Result<(), Failure> {
    let out = out.map_or_else(|| default_folder(root), PathBuf::from);
    build(root, &out)?;
    println!("{}", out.display());
    Ok(())
}
