//! `miri [SEEDS]`: the probe's lock-free parts under Miri, which needs a nightly compiler with that
//! component. It reports undefined behaviour and data races, and lets loads see what a weakly
//! ordered machine would; each seed is another schedule. The pure crates forbid unsafe code.

use std::path::Path;
use std::process::Command;

use heapwise_testkit::failure::Failure;

/// No isolation: tests read files and clocks. Leaks: mappings of the probe live as long as the
/// process. Provenance: the segment is addressed by offsets. Aliasing is not checked: Miri would
/// walk through the whole session at every reference to it, and a test would not end in minutes.
const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-permissive-provenance \
                     -Zmiri-disable-stacked-borrows";
/// Schedules that are tried unless the caller says otherwise.
const SEEDS: u32 = 4;

/// Runs the tests of each package whose names contain the filter.
pub(crate) fn command(root: &Path, args: &[String]) -> Result<(), Failure> {
    let seeds: u32 = args.first().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    run(root, "heapwise-probe", "interleavings", &format!("{FLAGS} -Zmiri-many-seeds=0..{seeds}"))
}

fn run(root: &Path, package: &str, filter: &str, flags: &str) -> Result<(), Failure> {
    let status = Command::new("cargo")
        .args(["+nightly", "miri", "test", "-p", package, "--lib", filter])
        .current_dir(root)
        // Interpreted and compiled products do not mix.
        .env("CARGO_TARGET_DIR", root.join("target/miri"))
        .env("MIRIFLAGS", flags)
        .status()
        .map_err(|error| Failure::new(format!("cargo: {error}")))?;
    let hint = "rustup toolchain install nightly --component miri rust-src";
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("miri: {package} failed (needs `{hint}`)")))
    }
}
