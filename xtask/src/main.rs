//! Developer commands: `cargo xtask victims`, `cargo xtask bench`, …

mod aarch64;
mod audit;
mod bench;
mod crowd;
mod loom;
mod miri;
mod packages;
mod suites;
mod test;
mod tidy;
mod victims;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heapwise_testkit::failure::Failure;
use heapwise_testkit::{kills, soak, torture};

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
        Some("torture") => torture::command(&root(), &args[1..]),
        Some("soak") => soak::command(&root(), &args[1..]),
        Some("crowd") => crowd::command(&root(), &args[1..]),
        Some("suites") => suites::command(&root(), &args[1..]),
        Some("kills") => kills::command(&root(), &args[1..]),
        Some("loom") => loom::command(&root(), &args[1..]),
        Some("miri") => miri::command(&root(), &args[1..]),
        Some("audit") => audit::command(&root(), &args[1..]),
        Some("bench") => bench::command(&root(), &args[1..]),
        _ => Err(Failure::new(format!(
            "usage: cargo xtask test | tidy | aarch64 [--short] | victims [OUT] | torture [--rounds N] [--seed N] | kills [--rounds N] [--seed N] |\n       soak [--minutes N] | crowd [--seconds N] [--clients N] | suites [--short] [NAME…] | loom [PREEMPTIONS] | miri [SEEDS] | audit [--if-reachable]\n       {}",
            bench::USAGE
        ))),
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
