//! Warnings about names: a program that is not the profiled one, binaries of another build, and
//! the share of bytes without a name.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use heapwise_profile::model::{BinaryProblems, SymbolProblem};
use heapwise_profile::naming::Naming;
use heapwise_profile::{Module, Profile, Values};
use heapwise_symbolize::build_id_of;

use crate::symbols::SymbolArgs;
use crate::warnings;

/// Share of the bytes below which missing names are not worth a line.
const LEAST_SHARE: f64 = 0.05;
/// Binaries that the line about missing names lists.
const MOST_BINARIES: usize = 3;

/// Prints the warnings about one profile, each once.
pub(crate) fn print(profile: &Profile, symbols: &SymbolArgs) {
    let mut lines = BTreeSet::new();
    lines.extend(symbols.program.as_deref().and_then(|program| wrong_program(program, profile)));
    if lines.is_empty() {
        lines.extend(profile.symbol_problems.iter().flat_map(other_builds));
    }
    let mut lines: Vec<String> = lines.into_iter().collect();
    lines.extend(unnamed(profile));
    warnings::print(&lines);
}

/// The program that the user names has another build-id than every binary of the profile.
fn wrong_program(program: &Path, profile: &Profile) -> Option<String> {
    let given = match build_id_of(program) {
        Ok(build_id) => build_id,
        Err(_) => return Some(format!("{}: not an ELF binary, so it names no function", program.display())),
    };
    let is_known = |module: &&Module| !module.build_id.is_empty();
    let recorded = profile.modules.iter().find(is_known)?;
    let matches = profile.modules.iter().any(|module| module.build_id == given);
    (!given.is_empty() && !matches).then(|| {
        format!(
            "{} is not the profiled program: its build-id is {given}, that of {} is {}",
            program.display(),
            recorded.path,
            recorded.build_id
        )
    })
}

/// Files that were there and had another build-id than the profile.
fn other_builds(binary: &BinaryProblems) -> Vec<String> {
    let line = |problem: &SymbolProblem| match problem {
        SymbolProblem::BuildIdMismatch { path, found } => Some(format!(
            "{} is another build: its build-id is {}, the profile has {}",
            path.display(),
            if found.is_empty() { "missing".to_owned() } else { found.to_string() },
            binary.build_id
        )),
        _ => None,
    };
    binary.problems.iter().filter_map(line).collect()
}

/// The share of bytes without a name, and what would name them.
fn unnamed(profile: &Profile) -> Option<String> {
    let naming = Naming::of(profile);
    let bytes = |values: &Values| match naming.total.inuse_bytes {
        0.0 => values.alloc_bytes,
        _ => values.inuse_bytes,
    };
    let (total, missing) = (bytes(&naming.total), bytes(&naming.unnamed_values()));
    if total <= 0.0 || missing < LEAST_SHARE * total {
        return None;
    }
    let percent = |bytes: f64| 100.0 * bytes / total;
    let binaries: Vec<String> = naming
        .unnamed
        .iter()
        .filter(|binary| !binary.path.is_empty())
        .take(MOST_BINARIES)
        .map(|binary| {
            format!("{} {:.1} % ({})", binary.path, percent(bytes(&binary.values)), remedy(&binary.path))
        })
        .collect();
    let line = format!("{:.1} % of the bytes are in functions without a name", percent(missing));
    Some(if binaries.is_empty() { line } else { format!("{line}: {}", binaries.join(", ")) })
}

/// The package, or else the file, that would name the functions of a binary.
fn remedy(path: &str) -> String {
    match package(path) {
        Some(package) => package,
        None if Path::new(path).is_file() => "give its debug file with --debug-path".to_owned(),
        None => "the file is not here; give it with --program or --sysroot".to_owned(),
    }
}

fn package(path: &str) -> Option<String> {
    let asked = |program: &str, arguments: &[&str]| {
        let command = Command::new(program).args(arguments).arg(path).stderr(Stdio::null()).output();
        let output = command.ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    // `libfoo1:amd64: PATH`, or `libfoo1, libbar1: PATH`.
    if let Some(line) = asked("dpkg-query", &["-S"]) {
        let name = line.split([':', ',']).next()?;
        // The C library has its debug files in a package of its own.
        return Some(if name == "libc6" {
            "install libc6-dbg".into()
        } else {
            format!("install {name}-dbgsym")
        });
    }
    let name = asked("rpm", &["-qf", "--qf", "%{NAME}"])?;
    Some(format!("debuginfo-install {name}"))
}
