//! What bench, crowd, suites, aarch64 and the checks share: running commands to a successful end,
//! empty folders, and the heapwise under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use heapwise_testkit::failure::Failure;

/// Runs a command whose output goes to the terminal; an error unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| Failure::at(&program(command), error))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{command:?}: {status}"))) }
}

/// The output of a command, whether it succeeds or not.
pub(crate) fn try_output(command: &mut Command) -> Result<Output, Failure> {
    command.output().map_err(|error| Failure::at(&program(command), error))
}

/// The output of a command that must succeed.
pub(crate) fn output(command: &mut Command) -> Result<Output, Failure> {
    let output = try_output(command)?;
    if output.status.success() {
        return Ok(output);
    }
    Err(Failure::new(format!("{command:?}: {}: {}", output.status, text(&output))))
}

/// Everything a command printed.
pub(crate) fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// An empty folder of that name.
pub(crate) fn fresh_folder(folder: &Path) -> Result<(), Failure> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| Failure::at(folder, error))?;
    }
    fs::create_dir_all(folder).map_err(|error| Failure::at(folder, error))
}

/// How heapwise is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// As tests build it.
    Debug,
    /// As users have it.
    Release,
}

/// Builds heapwise from this repository; the path of the executable.
pub(crate) fn build_heapwise(root: &Path, build: Build) -> Result<PathBuf, Failure> {
    build_package(root, "heapwise", &[], build)
}

/// Builds heapwise-fleet with its cluster; the path of the executable.
pub(crate) fn build_fleet(root: &Path) -> Result<PathBuf, Failure> {
    build_package(root, "heapwise-fleet", &["--features", "ballista"], Build::Release)
}

fn build_package(root: &Path, package: &str, options: &[&str], build: Build) -> Result<PathBuf, Failure> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", package]).args(options).current_dir(root);
    let folder = match build {
        Build::Debug => "debug",
        Build::Release => {
            command.arg("--release");
            "release"
        }
    };
    run(&mut command)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join(folder).join(package))
}

fn program(command: &Command) -> PathBuf {
    PathBuf::from(command.get_program())
}
