//! What compiles for aarch64 and runs the result: Debian's cross compilers, Debian's Rust (the one
//! with a standard library for the target), qemu-user, and the few programs and libraries of the
//! target that tests use.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::runner;
use heapwise_testkit::failure::Failure;
use heapwise_testkit::programs::Target;

pub(super) const TRIPLE: &str = "aarch64-unknown-linux-gnu";
pub(super) const QEMU: &str = "/usr/bin/qemu-aarch64-static";
const RUSTC: &str = "/usr/bin/rustc";
const JEPROF: &str = "/usr/bin/jeprof";
/// Before the names of the C compilers.
pub(super) const PREFIX: &str = "aarch64-linux-gnu-";

/// The loader and the libraries come from the target's own packages, which its loader searches by
/// default. Those of the cross compiler (`-L /usr/aarch64-linux-gnu`) are another build: with a
/// loader of the one and a libc of the other, threads hang.
const PACKAGES: [&str; 11] = [
    "rustc-web",
    "libstd-rust-web-dev:arm64",
    "gcc-aarch64-linux-gnu",
    "g++-aarch64-linux-gnu",
    "libc6:arm64",
    "libstdc++6:arm64",
    "libjemalloc2:arm64",
    "libgoogle-perftools4:arm64",
    "libmimalloc2.0:arm64",
    "qemu-user-static",
    "libjemalloc-dev",
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
        "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2",
        "/usr/lib/aarch64-linux-gnu/libtcmalloc.so.4",
        "/usr/lib/aarch64-linux-gnu/libmimalloc.so.2",
        JEPROF,
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
        // A sixth of the compiler's time; tests need names, not lines.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .args([subcommand, "--quiet", "--target", TRIPLE, "--target-dir"])
        .arg(out);
    cargo
}

/// The victims, with or without signed return addresses.
pub(super) fn target(protection: &str) -> Target {
    Target { prefix: PREFIX.to_owned(), flags: vec![format!("-mbranch-protection={protection}")] }
}

/// What was compiled for the target.
pub(super) struct Built {
    pub(super) heapwise: PathBuf,
    /// Test executables: name, path.
    pub(super) tests: Vec<(String, PathBuf)>,
}

/// heapwise, with the probe inside, and the tests: end to end, and of the unwinder.
pub(super) fn build(root: &Path, out: &Path) -> Result<Built, Failure> {
    let mut cargo = cargo(root, out, "test");
    cargo
        .args([
            "--no-run",
            "--message-format=json-render-diagnostics",
            "-p",
            "heapwise",
            "-p",
            "heapwise-probe",
        ])
        .args(["--test", "e2e", "--test", "memo", "--test", "plain_walk"])
        .stderr(Stdio::inherit());
    let messages = runner::output(&mut cargo)?.stdout;
    let text = String::from_utf8_lossy(&messages);
    let field = |line: &str, name: &str| {
        Some(line.split_once(&format!("\"{name}\":\""))?.1.split('"').next()?.to_owned())
    };
    let test = |line: &str| {
        let target = line.split_once("\"kind\":[\"test\"]")?.1;
        Some((field(target, "name")?, PathBuf::from(field(target, "executable")?)))
    };
    let tests = text.lines().filter_map(test).collect();
    Ok(Built { heapwise: out.join(TRIPLE).join("debug/heapwise"), tests })
}

/// jeprof, the witness of many tests, takes mappings without execute permission for data; and
/// guest code has none in the maps that qemu 7.2 shows.
const JEPROF_OF_GUESTS: &str = "#!/bin/sh
for file; do
    case \"$file\" in *.heap) sed -i 's/ r--p 00000000 / r-xp 00000000 /' \"$file\" ;; esac
done
exec /usr/bin/jeprof \"$@\"
";

/// A folder of programs for the search path of tests: a shell of the target, which can be profiled
/// there; and jeprof.
pub(super) fn programs(out: &Path) -> Result<PathBuf, Failure> {
    let folder = out.join("bin");
    let (shell, jeprof) = (folder.join("sh"), folder.join("jeprof"));
    let at = |error| Failure::at(&folder, error);
    fs::create_dir_all(&folder).map_err(at)?;
    fs::write(&jeprof, JEPROF_OF_GUESTS).map_err(at)?;
    fs::set_permissions(&jeprof, PermissionsExt::from_mode(0o755)).map_err(at)?;
    if !shell.exists() {
        // Debian has one shell a machine; this one is unpacked, not installed.
        let unpack = "apt-get download -qq dash:arm64 && dpkg -x dash_*_arm64.deb . && mv bin/dash ../bin/sh";
        let packages = out.join("packages");
        fs::create_dir_all(&packages).map_err(at)?;
        runner::run(Command::new("/bin/sh").args(["-e", "-c", unpack]).current_dir(packages))?;
    }
    Ok(folder)
}
