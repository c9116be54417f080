//! Developer commands: `cargo xtask victims`, `cargo xtask bench`, …

mod aarch64;
mod architecture;
mod arguments;
mod audit;
mod bench;
mod crowd;
mod dependencies;
mod documents;
mod loom;
mod miri;
mod module_cycles;
mod package;
mod packages;
mod runner;
mod simulation;
mod suites;
mod test;
mod tidy;
mod translation;
mod victims;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heapwise_testkit::failure::Failure;

const COMMANDS: &str = "\
checks    test                                install what tests need and run everything
          tidy                                check rules that the compiler does not
          audit [--if-reachable]              check licences and advisories of dependencies
          loom [PREEMPTIONS] | --weakened     explore memory orders of the probe
          miri [SEEDS]                        run unit tests under Miri
          aarch64 [--short]                   run everything for aarch64 under qemu
          suites [--short] [NAME…]            run test suites of other projects with the probe
          crowd [--seconds N] [--clients N]   serve a live redis to many clients
          fleet-simulation [--seconds N]      run a fleet of network namespaces, and kill its parts
build     package                             build a Debian package and print its path
          victims [OUT]                       compile tests/programs and print the folder
measure   ";

/// The repository: this package's parent folder.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

fn run(args: &[String]) -> Result<(), Failure> {
    match args.first().map(String::as_str) {
        Some("test") => test::command(&root()),
        Some("tidy") => tidy::command(&root()),
        Some("aarch64") => aarch64::command(&root(), &args[1..]),
        Some("victims") => victims::command(&root(), args.get(1).map(String::as_str)),
        Some("package") => package::command(&root()),
        Some("crowd") => crowd::command(&root(), &args[1..]),
        Some("fleet-simulation") => simulation::command(&root(), &args[1..]),
        Some("suites") => suites::command(&root(), &args[1..]),
        Some("loom") => loom::command(&root(), &args[1..]),
        Some("miri") => miri::command(&root(), &args[1..]),
        Some("audit") => audit::command(&root(), &args[1..]),
        Some("bench") => bench::command(&root(), &args[1..]),
        _ => Err(Failure::new(format!("usage: cargo xtask COMMAND\n\n{COMMANDS}\n{}", bench::USAGE))),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::from(2)
        }
    }
}
