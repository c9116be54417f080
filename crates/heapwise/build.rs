//! Requests packed relative relocations from the linker where the C library can load them, which is
//! glibc 2.36 and later. The executable is 0.9 MB smaller.

use std::env;
use std::process::Command;

/// The first version of glibc that loads them.
const FIRST_GLIBC: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_native = env::var("HOST").is_ok_and(|host| env::var("TARGET") == Ok(host));
    if is_native && glibc().is_some_and(|version| version >= FIRST_GLIBC) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's C library: `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
