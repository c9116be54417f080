//! Builds the probe as a shared library with a cargo of its own, for `include_bytes!`.
//!
//! Stable cargo cannot embed a cdylib dependency in an executable, and `cargo install` copies
//! executables only; a nested build makes both `cargo build` and `cargo install` yield one file.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let crates = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("..");
    for source in ["probe/src", "probe/Cargo.toml", "format/src", "format/Cargo.toml", "../Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", crates.join(source).display());
    }
    println!("cargo::rerun-if-env-changed=HEAPWISE_PROBE_SO");
    let library = match env::var_os("HEAPWISE_PROBE_SO") {
        Some(prebuilt) => {
            println!("cargo::rerun-if-changed={}", prebuilt.display());
            PathBuf::from(prebuilt)
        }
        None => build(&crates.join("probe/Cargo.toml")),
    };
    let bytes = fs::read(&library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    println!("cargo::rustc-env=HEAPWISE_PROBE_FINGERPRINT={}", fingerprint(&bytes));
    let copy = PathBuf::from(variable("OUT_DIR")).join("probe.so");
    fs::write(&copy, &bytes).unwrap_or_else(|error| panic!("{}: {error}", copy.display()));
}

/// Distinguishes versions of the library.
fn fingerprint(library: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    hasher.finish()
}

fn build(manifest: &Path) -> PathBuf {
    let triple = variable("TARGET");
    let target = PathBuf::from(variable("OUT_DIR")).join("probe-target");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["rustc", "--quiet", "--lib", "--crate-type", "cdylib", "--profile", "probe"]);
    cargo.args(["--features", "preload", "--target", &triple, "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(&target);
    // No start files: they bring `__cxa_finalize` and nothing the probe needs. Never unloaded: code
    // of the program may be inside a hook at any time.
    cargo.args(["--", "-Clink-arg=-nostartfiles", "-Clink-arg=-Wl,-soname,libheapwise.so,-z,nodelete"]);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let outer = text.starts_with("CARGO_") && text != "CARGO_HOME" && text != "CARGO_MAKEFLAGS";
        if outer && !text.starts_with("CARGO_NET_") && !text.starts_with("CARGO_TARGET_AARCH64_")
            || matches!(&*text, "RUSTFLAGS" | "RUSTC_WRAPPER" | "RUSTC_WORKSPACE_WRAPPER" | "LD_PRELOAD")
        {
            cargo.env_remove(&name);
        }
    }
    let built = cargo.status().is_ok_and(|status| status.success());
    assert!(built, "building the probe failed; see the messages above");
    target.join(triple).join("probe/libheapwise_probe.so")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("cargo sets {name}: {error}"))
}
