//! The programs the benchmark needs: where they are, which version, and how to get the missing
//! ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A Debian package and a file that it installs.
const PACKAGES: [(&str, &str); 17] = [
    ("heaptrack", "/usr/bin/heaptrack"),
    ("libjemalloc2", "/usr/lib/*/libjemalloc.so.2"),
    ("libjemalloc-dev", "/usr/bin/jeprof"),
    ("libgoogle-perftools4", "/usr/lib/*/libtcmalloc.so.4"),
    ("google-perftools", "/usr/bin/google-pprof"),
    ("libmimalloc2.0", "/usr/lib/*/libmimalloc.so.2.0"),
    ("valgrind", "/usr/bin/valgrind"),
    ("redis-server", "/usr/bin/redis-server"),
    ("sqlite3", "/usr/bin/sqlite3"),
    ("clang", "/usr/bin/clang++"),
    ("lua5.4", "/usr/bin/lua5.4"),
    ("perl", "/usr/bin/perl"),
    ("ruby", "/usr/bin/ruby"),
    ("gawk", "/usr/bin/gawk"),
    ("g++", "/usr/bin/g++"),
    ("jq", "/usr/bin/jq"),
    ("libxml2-utils", "/usr/bin/xmllint"),
];

/// Whether `pattern`, with `*` for one folder, names an existing file.
fn exists(pattern: &str) -> bool {
    let Some((before, after)) = pattern.split_once("*/") else { return Path::new(pattern).exists() };
    let Ok(folders) = std::fs::read_dir(before) else { return false };
    folders.flatten().any(|folder| folder.path().join(after).exists())
}

/// Whether python3 has a module.
pub(crate) fn has_module(module: &str) -> bool {
    let asked = Command::new("python3").args(["-c", &format!("import {module}")]).output();
    asked.is_ok_and(|output| output.status.success())
}

/// Installs what is missing, from PyPI and, when this is Debian and we are root, from there; what
/// stays missing is omitted.
pub(crate) fn install() {
    if has("python3") && !has_module("memray") {
        let pip = ["-m", "pip", "install", "--quiet", "--break-system-packages", "memray"];
        if !Command::new("python3").args(pip).output().is_ok_and(|output| output.status.success()) {
            eprintln!("bench: no memray from PyPI; its row is left out");
        }
    }
    install_packages();
}

fn install_packages() {
    let missing: Vec<&str> =
        PACKAGES.iter().filter(|(_, file)| !exists(file)).map(|(package, _)| *package).collect();
    if missing.is_empty() {
        return;
    }
    let root = first_line("id", &["-u"]) == Some("0".into());
    if !root || !exists("/usr/bin/apt-get") {
        eprintln!("bench: without {} (apt-get install them as root)", missing.join(", "));
        return;
    }
    eprintln!("bench: installing {}", missing.join(", "));
    for package in missing {
        let done = Command::new("apt-get")
            .args(["install", "-y", "-q", "--no-install-recommends", package])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null())
            .status();
        if !done.is_ok_and(|status| status.success()) {
            eprintln!("bench: no package {package}; its rows are left out");
        }
    }
}

/// Whether `program` can be started by name.
pub(crate) fn has(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|folder| Path::new(folder).join(program).is_file())
}

/// Whether the loader can preload `library`.
pub(crate) fn has_library(library: &str) -> bool {
    // The loader only warns about what it cannot preload; the warning is the answer.
    let output = Command::new("/bin/true").env("LD_PRELOAD", library).output();
    output.is_ok_and(|output| output.stderr.is_empty())
}

/// First non-empty line `program` prints, on either stream.
pub(crate) fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// Name and version of everything that took part.
pub(crate) fn versions(heapwise: &Path) -> Vec<(String, String)> {
    let heapwise = heapwise.to_string_lossy().into_owned();
    let asked: [(&str, &str, &[&str]); 14] = [
        ("heapwise", &heapwise, &["--version"]),
        ("glibc", "ldd", &["--version"]),
        ("gcc", "gcc", &["--version"]),
        ("heaptrack", "heaptrack", &["--version"]),
        ("jemalloc", "jeprof", &["--version"]),
        ("gperftools", "dpkg-query", &["-W", "-f=${Version}", "libgoogle-perftools4"]),
        ("mimalloc", "dpkg-query", &["-W", "-f=${Version}", "libmimalloc2.0"]),
        ("memray", "python3", &["-m", "memray", "--version"]),
        ("valgrind", "valgrind", &["--version"]),
        ("redis", "redis-server", &["--version"]),
        ("sqlite3", "sqlite3", &["--version"]),
        ("python3", "python3", &["--version"]),
        ("clang", "clang++", &["--version"]),
        ("lua", "lua5.4", &["-v"]),
    ];
    asked
        .iter()
        .filter_map(|(name, program, args)| Some((name.to_string(), first_line(program, args)?)))
        .collect()
}

/// The file behind a program name, for tools that want the executable beside its profile.
pub(crate) fn path_of(program: &Path) -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = path.split(':').map(|folder| Path::new(folder).join(program)).find(|file| file.is_file());
    found.unwrap_or_else(|| program.to_path_buf())
}
