//! `audit [--if-reachable]`: cargo-deny over what the executable is built from, npm over what the
//! page is. Both query databases of known faults on the network; without them that part is not
//! checked, which is an error without `--if-reachable`, and is printed in any case.

use std::path::Path;
use std::process::Command;

use crate::runner;
use heapwise_testkit::failure::Failure;

/// What a tool says when its database is out of reach; anything else is a finding.
const OUT_OF_REACH: [&str; 4] =
    ["failed to fetch advisory database", "audit endpoint returned an error", "ENOTFOUND", "EAI_AGAIN"];

/// The command.
pub(crate) fn command(root: &Path, args: &[String]) -> Result<(), Failure> {
    let may_be_out_of_reach = args.iter().any(|arg| arg == "--if-reachable");
    let deny = install(root)?;
    runner::output(
        Command::new(&deny)
            .args(["--log-level", "error", "check", "bans", "licenses", "sources"])
            .current_dir(root),
    )?;
    let mut missed = Vec::new();
    let mut advisories = Command::new(&deny);
    advisories.args(["check", "advisories"]);
    let mut page = Command::new("npm");
    page.args(["audit", "--package-lock-only", "--prefix", "web"]);
    for (what, command) in [("crates", &mut advisories), ("page", &mut page)] {
        let output = runner::try_output(command.current_dir(root))?;
        let said = runner::text(&output);
        if output.status.success() {
            println!("audit: no known fault in what the {what} depend on");
        } else if OUT_OF_REACH.iter().any(|words| said.contains(words)) {
            println!("audit: NOT CHECKED for known faults: {what}; the database is out of reach\n{said}");
            missed.push(what);
        } else {
            return Err(Failure::new(format!("audit: {what}:\n{said}")));
        }
    }
    if missed.is_empty() || may_be_out_of_reach {
        return Ok(());
    }
    Err(Failure::new(format!("audit: known faults not checked: {}", missed.join(", "))))
}

/// cargo-deny in target/audit; four minutes of one core the first time.
fn install(root: &Path) -> Result<std::path::PathBuf, Failure> {
    let home = root.join("target/audit");
    let tool = home.join("bin/cargo-deny");
    if !tool.exists() {
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "-q", "--locked", "cargo-deny", "--root"]).arg(&home);
        // Checked once, so built fast rather than to be fast.
        cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
        runner::output(cargo.current_dir(root))?;
    }
    Ok(tool)
}
