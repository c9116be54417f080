//! `cargo xtask aarch64`: the probe for aarch64, in victims that run under qemu, read by heapwise on this machine.
//!
//! The cross compiler and the standard library for the target come from Debian's packages. qemu-user cannot start
//! a program of another architecture from within (no binfmt here), so victims that exec
//! are left out; each victim leaves its segment, which the native heapwise reads: a profile taken on one
//! architecture opens on the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::failure::Failure;

const TRIPLE: &str = "aarch64-unknown-linux-gnu";
const QEMU: &str = "/usr/bin/qemu-aarch64-static";
const PACKAGES: [&str; 5] = [
    "rustc-web",
    "libstd-rust-web-dev:arm64",
    "gcc-aarch64-linux-gnu",
    "g++-aarch64-linux-gnu",
    "qemu-user-static",
];

/// Victims with their arguments; each keeps its own account. None with threads or fork: under Debian 12's
/// qemu-user the former hang with and without the probe, and a forked child was seen to spin.
const VICTIMS: [(&str, &[&str]); 10] = [
    ("plain.c", &["20000", "7"]),
    ("realloc_chain.c", &[]),
    ("early_constructor.c", &[]),
    ("longjmp_out.c", &[]),
    ("cpp_exceptions.cpp", &[]),
    ("swapcontext_coroutines.c", &[]),
    ("sigaltstack_alloc.c", &[]),
    ("aligned_family.c", &[]),
    ("cpp_operators.cpp", &[]),
    ("deep_recursion.c", &[]),
];

const METRICS: [(&str, &str); 4] = [
    ("alloc_objects", "alloc_objects"),
    ("alloc_space", "alloc_bytes"),
    ("inuse_objects", "inuse_objects"),
    ("inuse_space", "inuse_bytes"),
];

/// Modes that count every block, so that totals must be equal.
const MODES: [&str; 3] =
    ["mode:exact,index:shadow,paranoid:true", "mode:exact,index:hash", "mode:sampled,rate:1"];

/// Builds the probe and the victims, runs them all; prints `N passed, N failed`.
pub(crate) fn command(root: &Path) -> Result<(), Failure> {
    install()?;
    let out = root.join("target/aarch64");
    let probe = build_probe(root, &out)?;
    let heapwise = build_heapwise(root)?;
    let (mut passed, mut failed) = (0, 0);
    for protection in ["none", "standard"] {
        let programs = out.join(protection);
        fs::create_dir_all(&programs).map_err(|e| Failure::at(&programs, e))?;
        for (source, arguments) in VICTIMS {
            let program = build_victim(root, &programs, source, protection)?;
            for mode in MODES {
                match check(&heapwise, &probe, &program, arguments, mode) {
                    Ok(()) => passed += 1,
                    Err(failure) => {
                        failed += 1;
                        println!("FAILED {source} {mode} branch-protection={protection}: {failure}");
                    }
                }
            }
        }
    }
    println!("aarch64: {passed} passed, {failed} failed");
    if failed == 0 {
        Ok(())
    } else {
        Err(Failure::new("aarch64: totals differ from the victims' own account"))
    }
}

fn install() -> Result<(), Failure> {
    let there = ["/usr/bin/aarch64-linux-gnu-g++", QEMU];
    let libstd =
        Command::new("/usr/bin/rustc").args(["--print", "target-libdir", "--target", TRIPLE]).output();
    let has_libstd = libstd.is_ok_and(|out| Path::new(String::from_utf8_lossy(&out.stdout).trim()).exists());
    if has_libstd && there.iter().all(|file| Path::new(file).exists()) {
        return Ok(());
    }
    let apt = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command.status().is_ok_and(|status| status.success())
    };
    let mut install = vec!["install", "-y", "-q", "--no-install-recommends"];
    install.extend(PACKAGES);
    let done = apt("dpkg", &["--add-architecture", "arm64"])
        && apt("apt-get", &["update", "-q"])
        && apt("apt-get", &install);
    if done {
        Ok(())
    } else {
        Err(Failure::new(format!("install these first, as root: {}", PACKAGES.join(" "))))
    }
}

/// The preload library, by Debian's compiler: it is the one with a standard library for the target.
fn build_probe(root: &Path, out: &Path) -> Result<PathBuf, Failure> {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(root)
        .env("RUSTC", "/usr/bin/rustc")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc")
        .args([
            "rustc",
            "--quiet",
            "-p",
            "heapwise-probe",
            "--lib",
            "--crate-type",
            "cdylib",
            "--profile",
            "probe",
        ])
        .args(["--features", "preload", "--target", TRIPLE, "--target-dir"])
        .arg(out)
        .args(["--", "-Clink-arg=-nostartfiles", "-Clink-arg=-Wl,-soname,libheapwise.so,-z,nodelete"]);
    run(&mut cargo)?;
    Ok(out.join(TRIPLE).join("probe/libheapwise_probe.so"))
}

fn build_heapwise(root: &Path) -> Result<PathBuf, Failure> {
    run(Command::new("cargo").current_dir(root).args(["build", "--quiet", "-p", "heapwise"]))?;
    Ok(root.join("target/debug/heapwise"))
}

fn build_victim(root: &Path, out: &Path, source: &str, protection: &str) -> Result<PathBuf, Failure> {
    let (name, kind) = source.split_once('.').unwrap_or((source, "c"));
    let (compiler, standard) = match kind {
        "cpp" => ("aarch64-linux-gnu-g++", "-std=gnu++20"),
        _ => ("aarch64-linux-gnu-gcc", "-std=gnu17"),
    };
    let folder = root.join("tests/programs");
    let program = out.join(name);
    let mut command = Command::new(compiler);
    command
        .args([standard, "-D_GNU_SOURCE", "-g", "-O2", "-w", "-pthread"])
        .arg(format!("-mbranch-protection={protection}"))
        .arg("-o")
        .arg(&program)
        .arg(folder.join(source));
    if name == "cpp_exceptions" {
        // The exception crosses a module elsewhere; here it crosses a second object.
        command.arg(folder.join("exceptions_plugin.cpp"));
    }
    run(command.arg("-ldl"))?;
    Ok(program)
}

/// Runs one victim and compares what heapwise reads from its segment with its own account.
fn check(
    heapwise: &Path,
    probe: &Path,
    program: &Path,
    arguments: &[&str],
    mode: &str,
) -> Result<(), Failure> {
    let segments = program.with_extension("segments");
    let _ = fs::remove_dir_all(&segments);
    // qemu hands its environment on; its own option -E would cut the configuration at the commas.
    let output = Command::new("timeout")
        .args(["30", QEMU, "-L", "/usr/aarch64-linux-gnu"])
        .args(["-E", &format!("LD_PRELOAD={}", probe.display())])
        .env("HEAPWISE_CONF", mode)
        .env("HEAPWISE_DIR", &segments)
        .arg(program)
        .args(arguments)
        .output()
        .map_err(|e| Failure::at(Path::new(QEMU), e))?;
    if !output.status.success() {
        return Err(Failure::new(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))));
    }
    let segment = oldest_segment(&segments)?;
    for (metric, name) in METRICS {
        let own = witness(&output, name).ok_or_else(|| Failure::new(format!("no witness {name}")))?;
        let read = total(heapwise, &segment, metric)?;
        if read != own {
            return Err(Failure::new(format!("{metric}: heapwise {read}, the program {own}")));
        }
    }
    let _ = fs::remove_dir_all(&segments);
    Ok(())
}

/// The parent's segment: children of a fork have larger process numbers.
fn oldest_segment(folder: &Path) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(folder).map_err(|e| Failure::at(folder, e))?;
    let pid = |path: &PathBuf| -> Option<u32> { path.file_name()?.to_str()?.split('-').next()?.parse().ok() };
    let mut segments: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    segments.sort_by_key(|path| pid(path).unwrap_or(u32::MAX));
    segments.into_iter().next().ok_or_else(|| Failure::new("no segment was left"))
}

fn witness(output: &Output, name: &str) -> Option<i64> {
    let text = String::from_utf8_lossy(&output.stdout);
    let prefix = format!("witness {name} ");
    text.lines().find_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok())
}

fn total(heapwise: &Path, segment: &Path, metric: &str) -> Result<i64, Failure> {
    let output = Command::new(heapwise)
        .args(["top", "--json", &format!("--{metric}"), "--focus", "^w_"])
        .arg(segment)
        .output()
        .map_err(|e| Failure::at(heapwise, e))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.split("\"total\":").nth(1).and_then(|rest| rest.split([',', '}']).next()?.parse().ok());
    number.ok_or_else(|| Failure::new(format!("heapwise top: {}", String::from_utf8_lossy(&output.stderr))))
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let program = PathBuf::from(command.get_program());
    let status = command.status().map_err(|e| Failure::at(&program, e))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{command:?} failed"))) }
}
