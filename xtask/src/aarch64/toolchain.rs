//! What compiles for aarch64 and runs the result: Debian's cross compilers, Debian's Rust (the one with a standard
//! library for the target) and qemu-user.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::programs::Target;

pub(super) const TRIPLE: &str = "aarch64-unknown-linux-gnu";
pub(super) const QEMU: &str = "/usr/bin/qemu-aarch64-static";
const RUSTC: &str = "/usr/bin/rustc";
/// Before the names of the C compilers.
const PREFIX: &str = "aarch64-linux-gnu-";

/// The loader and the libraries come from the target's own packages, where its loader looks without being told. Those of
/// the cross compiler (`-L /usr/aarch64-linux-gnu`) are another build: with a loader of the one and a libc of the other,
/// threads hang.
const PACKAGES: [&str; 7] = [
    "rustc-web",
    "libstd-rust-web-dev:arm64",
    "gcc-aarch64-linux-gnu",
    "g++-aarch64-linux-gnu",
    "libc6:arm64",
    "libstdc++6:arm64",
    "qemu-user-static",
];

/// Installs what is missing, as root; else says what to install.
pub(super) fn install() -> Result<(), Failure> {
    if is_installed() {
        return Ok(());
    }
    println!("== install: {}", PACKAGES.join(" "));
    let done = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command.status().is_ok_and(|status| status.success())
    };
    let mut install = vec!["install", "-y", "-q", "--no-install-recommends"];
    install.extend(PACKAGES);
    let installed = done("dpkg", &["--add-architecture", "arm64"])
        && done("apt-get", &["update", "-q"])
        && done("apt-get", &install)
        && is_installed();
    if installed {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "aarch64 was not tested; install these first, as root: dpkg --add-architecture arm64 && apt-get update && apt-get install {}",
            PACKAGES.join(" ")
        )))
    }
}

fn is_installed() -> bool {
    let files = [
        "/usr/bin/aarch64-linux-gnu-gcc",
        "/usr/bin/aarch64-linux-gnu-g++",
        "/lib/aarch64-linux-gnu/libc.so.6",
        "/usr/lib/aarch64-linux-gnu/libstdc++.so.6",
        QEMU,
    ];
    let library = Command::new(RUSTC).args(["--print", "target-libdir", "--target", TRIPLE]).output();
    files.iter().all(|file| Path::new(file).exists())
        && library.is_ok_and(|out| Path::new(String::from_utf8_lossy(&out.stdout).trim()).exists())
}

/// A cargo that compiles for the target, into a folder of its own: the compiler is another one.
pub(super) fn cargo(root: &Path, out: &Path, subcommand: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(root)
        .env("RUSTC", RUSTC)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", format!("{PREFIX}gcc"))
        .env("CC_aarch64_unknown_linux_gnu", format!("{PREFIX}gcc"))
        .args([subcommand, "--quiet", "--target", TRIPLE, "--target-dir"])
        .arg(out);
    cargo
}

/// The victims, with or without signed return addresses.
pub(super) fn target(protection: &str) -> Target {
    Target { prefix: PREFIX.to_owned(), flags: vec![format!("-mbranch-protection={protection}")] }
}

/// The preload library.
pub(super) fn build_probe(root: &Path, out: &Path) -> Result<PathBuf, Failure> {
    let mut cargo = cargo(root, out, "rustc");
    cargo.args(["-p", "heapwise-probe", "--lib", "--crate-type", "cdylib", "--profile", "probe"]).args([
        "--features",
        "preload",
        "--",
        "-Clink-arg=-nostartfiles",
        "-Clink-arg=-Wl,-soname,libheapwise.so,-z,nodelete",
    ]);
    run(&mut cargo)?;
    Ok(out.join(TRIPLE).join("probe/libheapwise_probe.so"))
}

/// Has the kernel start programs of the target through qemu, so that they can start others. As root; until the next boot.
pub(super) fn register() -> Result<(), Failure> {
    const FOLDER: &str = "/proc/sys/fs/binfmt_misc";
    const RULE: &str = "/usr/lib/binfmt.d/qemu-aarch64.conf";
    let folder = Path::new(FOLDER);
    if folder.join("qemu-aarch64").exists() {
        return Ok(());
    }
    if !folder.join("register").exists() {
        run(Command::new("mount").args(["-t", "binfmt_misc", "none", FOLDER]))?;
    }
    let rule = fs::read(RULE).map_err(|e| Failure::at(Path::new(RULE), e))?;
    let register = folder.join("register");
    fs::write(&register, rule).map_err(|e| Failure::at(&register, e))
}

pub(super) fn run(command: &mut Command) -> Result<(), Failure> {
    let program = PathBuf::from(command.get_program());
    let status = command.status().map_err(|e| Failure::at(&program, e))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{command:?} failed"))) }
}
