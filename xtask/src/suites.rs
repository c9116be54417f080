//! `suites [--short] [NAME…]`: other people's test suites as witness. Each runs alone, then with
//! the probe sampling at 1 KiB, in exact and in log mode, and must come to the same verdicts.
//!
//! The suites come from Debian's packages (installed when missing) or from where the user says;
//! none is in this repository.

mod clang;
mod lua;
mod python;
mod redis;
mod redis_tests;
mod sqlite;
mod stress;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::packages;
use crate::runner::{self, Build};
use heapwise_testkit::failure::Failure;

/// A suite somebody else wrote.
struct Suite {
    name: &'static str,
    /// What it needs: (file, Debian package).
    packages: &'static [(&'static str, &'static str)],
    /// Whether it is part of the short form.
    is_short: bool,
    /// Runs it; one verdict a line. `None` when it is not to be had here, with a word why on
    /// standard error.
    run: fn(&Stage, &Under<'_>) -> Result<Option<String>, Failure>,
}

const SUITES: [Suite; 8] = [
    sqlite::SUITE,
    clang::SUITE,
    lua::SUITE,
    stress::SUITE,
    redis::SUITE,
    redis_tests::SUITE,
    python::SUITE,
    python::MALLOC_SUITE,
];

/// Options of `heapwise run` that a suite is run with.
const MODES: [(&str, &[&str]); 3] =
    [("sampled", &["-c", "1K"]), ("exact", &["--exact"]), ("log", &["--log", "--ring", "10s"])];

/// Where a suite runs.
#[derive(Clone)]
struct Stage {
    root: PathBuf,
    heapwise: PathBuf,
    scratch: PathBuf,
    /// A minute for all suites together.
    is_short: bool,
}

/// With or without the probe.
struct Under<'a> {
    stage: &'a Stage,
    mode: Option<(&'static str, &'static [&'static str])>,
}

impl Under<'_> {
    /// `program`, perhaps with the probe inside, in a scratch directory. A shell starts commands in
    /// the background with `SIGINT` ignored, which a program without the probe would inherit.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("/usr/bin/env");
        command.arg("--default-signal=INT,QUIT");
        if let Some((_, options)) = self.mode {
            command.arg(&self.stage.heapwise).args(["run", "-q", "-f", "-o"]);
            command.arg(self.stage.scratch.join("profile")).args(options).arg("--");
        }
        command.arg(program);
        command.current_dir(&self.stage.scratch).env("HEAPWISE_DIR", self.stage.segments());
        command.stdin(Stdio::null());
        command
    }

    /// Runs to the end.
    fn output(&self, program: &str, arguments: &[&str]) -> Result<Output, Failure> {
        let output = self.command(program).args(arguments).output();
        output.map_err(|error| Failure::new(format!("{program}: {error}")))
    }
}

impl Stage {
    fn segments(&self) -> PathBuf {
        self.scratch.join("segments")
    }

    fn clear(&self) -> Result<(), Failure> {
        runner::fresh_folder(&self.scratch)?;
        let made = fs::DirBuilder::new().mode(0o700).create(self.segments());
        made.map_err(|error| Failure::at(&self.segments(), error))
    }
}

impl Suite {
    /// Runs the suite alone and in every mode; the number of modes whose verdicts differ.
    fn judge(&self, stage: &Stage) -> Result<usize, Failure> {
        packages::install(self.packages)?;
        let verdicts = |mode| -> Result<Option<BTreeSet<String>>, Failure> {
            stage.clear()?;
            let text = (self.run)(stage, &Under { stage, mode })?;
            Ok(text.map(|text| text.lines().map(str::to_owned).collect()))
        };
        let started = Instant::now();
        let Some(alone) = verdicts(None)? else { return Ok(0) };
        let alone_seconds = started.elapsed().as_secs_f64();
        if alone.is_empty() {
            return Err(Failure::new(format!("{}: the suite came to no verdict", self.name)));
        }
        println!("{:<8} alone    {} verdicts, {alone_seconds:.1} s", self.name, alone.len());
        let mut differing = 0;
        for mode in MODES {
            let started = Instant::now();
            let with = verdicts(Some(mode))?.unwrap_or_default();
            let seconds = started.elapsed().as_secs_f64();
            let differences: Vec<_> = alone.symmetric_difference(&with).collect();
            println!("{:<8} {:<8} {} differ, {seconds:.1} s", self.name, mode.0, differences.len());
            for verdict in differences.iter().take(40) {
                println!("    {} {verdict}", if alone.contains(*verdict) { "alone:" } else { "with: " });
            }
            differing += usize::from(!differences.is_empty());
        }
        Ok(differing)
    }
}

/// The command, with the release build; the short form with the build the tests have made.
pub(crate) fn command(root: &Path, args: &[String]) -> Result<(), Failure> {
    let is_short = args.iter().any(|arg| arg == "--short");
    let names: Vec<&String> = args.iter().filter(|arg| !arg.starts_with("--")).collect();
    let build = if is_short { Build::Debug } else { Build::Release };
    let stage = Stage {
        root: root.to_owned(),
        heapwise: runner::build_heapwise(root, build)?,
        scratch: root.join("target/suites"),
        is_short,
    };
    let chosen = |suite: &&Suite| match names.as_slice() {
        [] => suite.is_short || !is_short,
        some => some.iter().any(|name| *name == suite.name),
    };
    let mut differing = 0;
    for suite in SUITES.iter().filter(chosen) {
        differing += suite.judge(&stage)?;
    }
    if differing == 0 {
        Ok(())
    } else {
        Err(Failure::new(format!("{differing} runs came to other verdicts")))
    }
}
