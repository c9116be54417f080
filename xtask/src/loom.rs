//! `loom`: the probe's lock-free parts under loom, which runs every schedule of a model's threads with a bounded number of
//! preemptions, and lets loads see everything that a weakly ordered machine may show them.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;

/// Switches between threads that no thread asked for. With more, the models find nothing new and take hours.
const PREEMPTIONS: &str = "2";

/// Runs the models, with optimisation: they are some hundred thousand executions.
pub(crate) fn command(root: &Path, args: &[String]) -> Result<(), Failure> {
    let bound = args.first().map_or(PREEMPTIONS, String::as_str);
    let status = Command::new("cargo")
        .args(["test", "--release", "-p", "heapwise-probe", "--lib", "models::"])
        .current_dir(root)
        // Everything is compiled anew with this flag: not where the rest is.
        .env("CARGO_TARGET_DIR", root.join("target/loom"))
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", bound)
        .status()
        .map_err(|error| Failure::new(format!("cargo: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::new("loom: a model failed")) }
}
