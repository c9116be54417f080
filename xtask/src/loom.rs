//! `loom`: the probe's lock-free parts under loom, which runs the schedules of a model's threads
//! with a bounded number of preemptions, and lets loads see everything that a weakly ordered
//! machine may show them. `loom --weakened` shows that the models can fail.

mod weakened;

use std::path::Path;
use std::process::Command;

use heapwise_testkit::failure::Failure;

/// Preemptive switches between threads: a minute of processor time; with two it is a
/// quarter of that.
const PREEMPTIONS: &str = "3";

/// Runs the models.
pub(crate) fn command(root: &Path, args: &[String]) -> Result<(), Failure> {
    if args.first().is_some_and(|arg| arg == "--weakened") {
        return weakened::command(root, args.get(1).map_or("", String::as_str));
    }
    let bound = args.first().map_or(PREEMPTIONS, String::as_str);
    let status = models(root, "models::", bound)
        // Everything is compiled again for loom, in a folder of its own.
        .env("CARGO_TARGET_DIR", root.join("target/loom"))
        .status()
        .map_err(|error| Failure::new(format!("cargo: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::new("loom: a model failed")) }
}

/// The models whose names contain `filter`, with optimisation: they are some hundred thousand
/// executions.
fn models(root: &Path, filter: &str, bound: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["test", "--release", "-p", "heapwise-probe", "--lib", filter])
        .current_dir(root)
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", bound);
    cargo
}
