//! Profiles and recordings that change sides: taken on one architecture, read on the other, with the names that are found
//! below a copy of the taker's root directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{METRICS, output_of, witness};
use crate::failure::Failure;

/// A machine: its heapwise, and a folder of victims compiled for it.
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) heapwise: PathBuf,
    pub(super) victims: PathBuf,
}

/// What is taken: options of `heapwise run`, and a file.
const KINDS: [(&str, &str); 2] = [("--exact", "exchanged.hwp"), ("--log", "exchanged.hwr")];

/// Takes on `taker`, reads on `reader`; `scratch` is a folder of its own.
pub(super) fn check(taker: &Machine, reader: &Machine, scratch: &Path) -> Result<(), Failure> {
    for (mode, file) in KINDS {
        let _ = fs::remove_dir_all(scratch);
        let profile = scratch.join(file);
        let output = take(taker, mode, &profile, scratch)?;
        for (metric, name) in METRICS {
            let own = witness(&output, name).ok_or_else(|| Failure::new(format!("no witness {name}")))?;
            let read = total(reader, metric, &profile, &scratch.join("root"))?;
            if read != Some(own) {
                return Err(Failure::new(format!(
                    "{mode} of {} on {}: {metric}: {read:?}, the program {own}",
                    taker.name, reader.name
                )));
            }
        }
    }
    Ok(())
}

/// Runs a victim, then moves it below `root`: no name can come from where it ran.
fn take(taker: &Machine, mode: &str, profile: &Path, scratch: &Path) -> Result<Output, Failure> {
    let at = |error| Failure::at(scratch, error);
    let (program, segments) = (scratch.join("program"), scratch.join("segments"));
    fs::create_dir_all(&segments).map_err(at)?;
    fs::set_permissions(&segments, std::os::unix::fs::PermissionsExt::from_mode(0o700)).map_err(at)?;
    fs::copy(taker.victims.join("plain"), &program).map_err(at)?;
    let mut run = Command::new(&taker.heapwise);
    run.env("HEAPWISE_DIR", segments).args(["run", "-q", mode, "-o"]).arg(profile);
    let output = output_of(run.arg("--").arg(&program).args(["20000", "7"]))?;
    let moved = scratch.join("root").join(program.strip_prefix("/").unwrap_or(&program));
    fs::create_dir_all(moved.parent().unwrap_or(scratch)).map_err(at)?;
    fs::rename(&program, moved).map_err(at)?;
    Ok(output)
}

/// What the reader finds under the victim's own functions, by name.
fn total(reader: &Machine, metric: &str, profile: &Path, root: &Path) -> Result<Option<i64>, Failure> {
    let mut top = Command::new(&reader.heapwise);
    top.args(["top", "--json", "--no-cache", &format!("--{metric}"), "--focus", "^w_", "--sysroot"]);
    let output = output_of(top.arg(root).arg(profile))?;
    Ok(super::total_of(&String::from_utf8_lossy(&output.stdout)))
}
