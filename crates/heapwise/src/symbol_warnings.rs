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
    let binaries: Vec<_> =
        naming.unnamed.iter().filter(|binary| !binary.path.is_empty()).take(MOST_BINARIES).collect();
    let paths: Vec<&str> = binaries.iter().map(|binary| binary.path.as_str()).collect();
    let binaries: Vec<String> = binaries
        .iter()
        .zip(remedies(&paths))
        .map(|(binary, remedy)| format!("{} {:.1} % ({remedy})", binary.path, percent(bytes(&binary.values))))
        .collect();
    let line = format!("{:.1} % of the bytes are in functions without a name", percent(missing));
    Some(if binaries.is_empty() { line } else { format!("{line}: {}", binaries.join(", ")) })
}

/// For each binary, the package, or else the file, that would name its functions.
fn remedies(paths: &[&str]) -> Vec<String> {
    // One call for all: it reads the file lists of every package, which takes 40 ms.
    let owners = output("dpkg-query", &["-S"], paths).unwrap_or_default();
    let remedy = |path: &&str| match debian_package(&owners, path).or_else(|| rpm_package(path)) {
        Some(package) => package,
        None if Path::new(path).is_file() => "give its debug file with --debug-path".to_owned(),
        None => "the file is not here; give it with --program or --sysroot".to_owned(),
    };
    paths.iter().map(remedy).collect()
}

/// The package that has the symbols of `path`, by lines like `libfoo1:amd64: PATH` or
/// `libfoo1, libbar1: PATH`.
fn debian_package(owners: &str, path: &str) -> Option<String> {
    let is_of_path = |line: &&str| line.rsplit_once(": ").is_some_and(|(_, file)| file == path);
    let name = owners.lines().find(is_of_path)?.split([':', ',']).next()?;
    // The C library has its debug files in a package of its own.
    Some(if name == "libc6" { "install libc6-dbg".into() } else { format!("install {name}-dbgsym") })
}

fn rpm_package(path: &str) -> Option<String> {
    let name = output("rpm", &["-qf", "--qf", "%{NAME}"], &[path]);
    name.filter(|name| !name.is_empty() && !name.contains(' '))
        .map(|name| format!("debuginfo-install {name}"))
}

/// What a command prints about files. It fails when one of them has no package.
fn output(program: &str, arguments: &[&str], files: &[&str]) -> Option<String> {
    let command = Command::new(program).args(arguments).args(files).stderr(Stdio::null()).output();
    String::from_utf8(command.ok()?.stdout).ok()
}
